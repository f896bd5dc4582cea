# Everything a developer does, and everything that CI does. Each target does its own set-up.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
PY := .venv/bin/python
BIN := .venv/bin
BED := PYTHONPATH=tests $(PY) -m bed
CHARTS := PYTHONPATH=tests $(PY) -m charts
CONFORMANCE := PYTHONPATH=tests $(PY) -m conformance
IMAGE ?= ghcr.io/trainshed/trainshed:dev
FAST := -m "not apiserver and not e2e and not bench"
# Rings of tests that wait more than they compute run in so many processes, each with control planes of its own: file by
# file, as they stand in their folders, because those of a folder share theirs.
JOBS ?= 2
# Where real processes share a machine with others, a failure is tried again, and named: docs/decisions.
AGAIN := --reruns 2 --reruns-delay 10 --max-suite-reruns 10 --rerun-show-tracebacks

# To deploy to a cluster of your own, name its context on the command line: make deploy CONTEXT=my-cluster. Otherwise, and
# whatever the environment says, only the test bed is touched.
ifeq ($(origin CONTEXT),command line)
KUBECTL = command kubectl --context "$(CONTEXT)"
HELM = command helm --kube-context "$(CONTEXT)"
else
KUBECTL = "$$bed_kubectl" --kubeconfig "$$bed_kubeconfig"
HELM = "$$bed_helm" --kubeconfig "$$bed_kubeconfig"
BED_NEEDED := image
# Each on a line of its own: a command that fails within another's words would fail unseen.
define find_programs
bed_kubectl=$$($(BED) kubectl)
	bed_helm=$$($(BED) helm)
	bed_kubeconfig=$$($(BED) kubeconfig)
endef
endif

# What a recipe was about and how long it took.
took = printf '\n%s: %d s\n\n' "$(1)" "$$SECONDS" >&2

.PHONY: help
help: ## say what can be made
	@awk 'BEGIN { FS = ":.*## " } /^## / { printf "\n%s\n", substr($$0, 4) } /^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

## First things

.PHONY: demo
demo: venv ## a cluster, the operator in it, and two jobs that train before your eyes
	@PYTHONPATH=tests $(PY) -m demo prepare "$(IMAGE)"
	$(MAKE) deploy
	PYTHONPATH=tests $(PY) -m demo run
	$(call took,demo)

.PHONY: test
test: test-fast test-apiserver bench test-e2e ## every ring, the fast ones first: pure, world, API server, budgets, node

## While working

.PHONY: venv
venv: .venv/.ready ## the virtual environment with everything pinned (.venv)

.venv/.ready: constraints/dev.txt pyproject.toml
	@echo "Making .venv: about a minute the first time." >&2
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints/dev.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@
	$(call took,.venv)

.PHONY: venv-sdk
venv-sdk: .venv-sdk/.ready ## the environment of the v1 SDK, which asks for older packages (.venv-sdk)

.venv-%/.ready: constraints/%.txt
	@echo "Making .venv-$*: half a minute the first time." >&2
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	touch $@
	$(call took,.venv-$*)

.PHONY: docs
docs: .venv-docs/.ready ## build the site of docs/ into build/site, warnings as errors
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	$(call took,docs)

.PHONY: check
check: lint test-fast ## what must hold before a commit: everything that needs no cluster

.PHONY: lint
lint: venv ## what no test can tell: lint, types, floors, generated files, documentation
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml operator
	$(PY) -m trainshed.manifests --check
	$(CONFORMANCE) --check
	$(PY) examples/embed.py --check
	$(MAKE) docs
	$(call took,lint)

.PHONY: audit
audit: .venv-audit/.ready ## which pinned packages have known holes; asks a service, and fails if it cannot be asked
	@for pins in operator dev build; do
	.venv-audit/bin/pip-audit --strict --progress-spinner off --no-deps --disable-pip --requirement "constraints/$$pins.txt"
	done
	$(call took,audit)

.PHONY: fmt
fmt: venv ## put the code in order
	@$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

.PHONY: manifests
manifests: venv ## write crds/, the chart's rights and values, and manifests/ anew
	@$(PY) -m trainshed.manifests
	$(CHARTS)

.PHONY: constraints
constraints: venv ## choose the newest versions that fit, and pin them with their hashes (minutes)
	@cd constraints
	$(LOCK) --output-file=operator.txt ../pyproject.toml
	$(LOCK) --output-file=dev.txt --extra=dev --constraint=operator.txt ../pyproject.toml
	$(LOCK) --output-file=build.txt build.in
	$(LOCK) --output-file=sdk.txt sdk.in
	$(LOCK) --output-file=docs.txt docs.in
	$(LOCK) --output-file=audit.txt audit.in

LOCK := ../$(BIN)/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

.PHONY: clean
clean: ## remove what the tools left behind: environments, caches, builds; not the cluster
	@rm -rf .venv .venv-sdk .venv-docs .venv-audit .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage build dist operator/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

## The rings of tests

.PHONY: test-fast
test-fast: venv ## pure and world: minutes, no cluster; every branch of api, frameworks and plan is taken
	@$(PY) -m pytest -q -n auto $(FAST) --cov --cov-report=term
	$(call took,fast rings)

.PHONY: test-apiserver
test-apiserver: venv venv-sdk ## the whole operator against a real API server; the pods' lives are played
	@$(PY) -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m apiserver $(AGAIN)
	$(call took,API server ring)

.PHONY: second-tries
second-tries: venv venv-sdk ## the same ring, each test failing for nothing at its first try: an hour; TESTS="tests/faults -k leader" for some
	@PYTHONPATH=tests $(PY) -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m apiserver -p rig.second_try --reruns 1 --rerun-show-tracebacks $(TESTS)
	$(call took,second tries)

.PHONY: faults
faults: venv ## every fault at every write and watch event of the operator: an hour, and it goes on where it was stopped
	@PYTHONPATH=tests $(PY) -m faults $(FAULTS)
	$(call took,faults)

.PHONY: soak
soak: venv ## two replicas in small jobs and random faults, make soak MINUTES=120: leaks, duplicates, memory
	@PYTHONPATH=tests $(PY) -m soak $(if $(MINUTES),--minutes $(MINUTES))
	$(call took,soak)

.PHONY: leaders
leaders: venv ## leaders that die, end and freeze, make leaders RUNS=5: how soon another acts, and what they still write
	@PYTHONPATH=tests $(PY) -m faults.leaders $(if $(RUNS),--runs $(RUNS))
	$(call took,leaders)

.PHONY: outage
outage: venv ## the API server away, make outage MINUTES=10, in three ways: who lives, and how soon all is well again
	@PYTHONPATH=tests $(PY) -m soak.outage $(if $(MINUTES),--minutes $(MINUTES))
	$(call took,outage)

.PHONY: mutants
mutants: venv ## put in bugs, one at a time, and say which tests notice first: half an hour; ALL=yes asks every suite, for hours
	@PYTHONPATH=tests $(PY) -m mutants --keep $(if $(ALL),--all-levels) $(if $(ONLY),--only $(ONLY))
	$(call took,mutants)

.PHONY: simulate
simulate: venv ## random schedules in the simulation, N=100000 of them, on both processors; it goes on where it was stopped
	@PYTHONPATH=tests $(PY) -m sim --seeds 0:$(or $(N),100000) --processes 2 --state tests/faults/results/simulate.toml
	$(call took,simulate)

.PHONY: exhaustive
exhaustive: venv ## small worlds in every order of events, at most MINUTES=30 for each
	@PYTHONPATH=tests $(PY) -m search --write --minutes $(or $(MINUTES),30)
	$(call took,exhaustive)

.PHONY: conformance
conformance: venv venv-sdk ## each row of training-operator v1's behaviour against a real API server, as a table
	@$(CONFORMANCE)
	$(call took,conformance)

.PHONY: reliability
reliability: venv ## write docs/reliability.md anew, from the fault matrix and the figures of the runs below
	@PYTHONPATH=tests $(PY) -m reliability

.PHONY: sim-conformance
sim-conformance: venv ## random calls, N=20000 sequences of them, to the simulated and to a real API server, and every difference
	@PYTHONPATH=tests $(PY) -m sim.likeness $(or $(N),20000) --result tests/faults/results/sim-conformance.toml
	$(call took,sim-conformance)

.PHONY: test-e2e
test-e2e: venv venv-sdk ## every example, on kind's nodes with real containers; nodes that go; the quick start
	@$(BED) up --image "$(IMAGE)" --all-images
	$(MAKE) deploy
	$(PY) -m pytest -m e2e $(AGAIN)
	$(call took,node ring)

.PHONY: bench
bench: venv ## budgets that fail and times that are only recorded
	@$(PY) -m pytest -s -m bench --ignore tests/bench/test_multitude.py
	$(call took,bench)

.PHONY: multitude
multitude: venv ## ten thousand finished jobs in the store: what a new one costs, and rest
	@TRAINSHED_FIGURES=tests/faults/results/finished.toml $(PY) -m pytest -s tests/bench/test_multitude.py
	$(call took,multitude)

## The test bed: a cluster on this machine

.PHONY: cluster
cluster: venv ## start it
	@$(BED) up
	$(call took,cluster)

.PHONY: cluster-down
cluster-down: venv ## stop it; nothing of it stays
	@$(BED) down

.PHONY: cluster-status
cluster-status: venv ## say how it is
	@$(BED) status

.PHONY: fresh
fresh: ## the README's two commands as on a fresh machine, in a root of their own: an hour and a half, as root; COMMANDS="'make demo'"
	@if [ -x $(PY) ]; then $(BED) down; fi
	tests/bed/fresh.sh $(COMMANDS)
	$(call took,fresh)

.PHONY: image
image: venv ## build our image from the Dockerfile and load it into the test bed
	@$(BED) up --image "$(IMAGE)"

.PHONY: sbom
sbom: venv ## write what the image is made of to build/sbom.json, as CycloneDX
	@PYTHONPATH=tests $(PY) -m bom build/sbom.json

.PHONY: deploy
deploy: venv $(BED_NEEDED) ## install the chart in the test bed, or with CONTEXT=name in a cluster of yours; VALUES='--set …'
	@$(find_programs)
	kubectl() { $(KUBECTL) "$$@"; }
	helm() { $(HELM) --namespace trainshed-system "$$@"; }
	before=$$(kubectl --namespace trainshed-system get deployment trainshed --ignore-not-found --output name)
	kubectl apply -f manifests/base/namespace.yaml
	image="$(IMAGE)"
	helm upgrade --install --take-ownership trainshed charts/trainshed \
	    --set image.repository="$${image%:*}",image.tag="$${image##*:}" $(VALUES)
	# Under the same name there may be another image now.
	if [ -n "$$before" ]; then kubectl --namespace trainshed-system rollout restart deployment/trainshed; fi
	kubectl --namespace trainshed-system rollout status deployment/trainshed --timeout=180s
	$(call took,deploy)

.PHONY: undeploy
undeploy: venv ## take it out again, and with it every job it knows
	@$(find_programs)
	kubectl() { $(KUBECTL) "$$@"; }
	helm() { $(HELM) --namespace trainshed-system "$$@"; }
	helm uninstall --ignore-not-found --wait trainshed
	kubectl delete --ignore-not-found -f manifests/base/namespace.yaml -f crds/
