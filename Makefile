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
CONFORMANCE := PYTHONPATH=tests $(PY) -m conformance
IMAGE ?= ghcr.io/trainshed/trainshed:dev
FAST := -m "not apiserver and not e2e and not bench"
COVERED := $(PY) -m pytest -q $(FAST) --cov --cov-report=term

# To deploy to a cluster of your own, name its context on the command line: make deploy CONTEXT=my-cluster. Otherwise, and
# whatever the environment says, only the test bed is touched.
ifeq ($(origin CONTEXT),command line)
KUBECTL = command kubectl --context "$(CONTEXT)"
else
KUBECTL = "$$($(BED) kubectl)" --kubeconfig "$$($(BED) kubeconfig)"
BED_NEEDED := image
endif

# What a recipe was about and how long it took.
took = printf '\n%s: %d s\n\n' "$(1)" "$$SECONDS"

.PHONY: help
help: ## say what can be made
	@awk 'BEGIN { FS = ":.*## " } /^## / { printf "\n%s\n", substr($$0, 4) } /^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

## First things

.PHONY: demo
demo: deploy ## a cluster, the operator in it, and two jobs that train before your eyes
	@PYTHONPATH=tests $(PY) -m demo

.PHONY: test
test: test-fast test-apiserver bench test-e2e ## every ring, the fast ones first: pure, world, API server, budgets, node

## While working

.PHONY: venv
venv: .venv/.ready ## the virtual environment with everything pinned (.venv)

.venv/.ready: constraints/dev.txt pyproject.toml
	@echo "Making .venv: about a minute the first time."
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints/dev.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@
	$(call took,.venv)

.PHONY: venv-sdk
venv-sdk: .venv-sdk/.ready ## the environment of the v1 SDK, which asks for older packages (.venv-sdk)

.venv-sdk/.ready: constraints/sdk.txt
	@echo "Making .venv-sdk: half a minute the first time."
	test -x .venv-sdk/bin/python || $(PYTHON) -m venv .venv-sdk
	.venv-sdk/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints/sdk.txt
	touch $@
	$(call took,.venv-sdk)

.PHONY: check
check: venv ## what must hold before a commit: lint, types, floors, structure, generated files, coverage
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(PY) -m pytest -q tests/test_structure.py
	$(PY) -m trainshed.manifests --check
	$(CONFORMANCE) --check
	$(PY) examples/embed.py --check
	$(COVERED)
	$(call took,check)

.PHONY: coverage
coverage: venv ## the fast rings again, counted: every branch of api, frameworks and plan
	@$(COVERED)

.PHONY: fmt
fmt: venv ## put the code in order
	@$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

.PHONY: manifests
manifests: venv ## write crds/ and the rules in manifests/ anew
	@$(PY) -m trainshed.manifests

.PHONY: constraints
constraints: venv ## choose the newest versions that fit, and pin them with their hashes (minutes)
	@cd constraints
	$(LOCK) --output-file=operator.txt ../pyproject.toml
	$(LOCK) --output-file=dev.txt --extra=dev --constraint=operator.txt ../pyproject.toml
	$(LOCK) --output-file=build.txt build.in
	$(LOCK) --output-file=sdk.txt sdk.in

LOCK := ../$(BIN)/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

.PHONY: clean
clean: ## remove what the tools left behind: environments, caches, builds; not the cluster
	@rm -rf .venv .venv-sdk .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage build dist operator/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

## The rings of tests

.PHONY: test-fast
test-fast: venv ## pure and world: seconds, no cluster
	@$(PY) -m pytest -q $(FAST)
	$(call took,fast rings)

.PHONY: test-apiserver
test-apiserver: venv venv-sdk ## the whole operator against a real API server; the pods' lives are played
	@$(PY) -m pytest -m apiserver
	$(call took,API server ring)

.PHONY: conformance
conformance: venv venv-sdk ## each row of training-operator v1's behaviour against a real API server, as a table
	@$(CONFORMANCE)
	$(call took,conformance)

.PHONY: test-e2e
test-e2e: venv venv-sdk deploy ## every example, on a real node with real containers
	@$(PY) -m pytest -m e2e
	$(call took,node ring)

.PHONY: bench
bench: venv ## budgets that fail and times that are only recorded
	@$(PY) -m pytest -s -m bench
	$(call took,bench)

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

.PHONY: image
image: cluster ## build our image from the Dockerfile and load it into the test bed
	@$(BED) image "$(IMAGE)" --dockerfile Dockerfile --context .

.PHONY: deploy
deploy: venv $(BED_NEEDED) ## install the operator in the test bed, or with CONTEXT=name in a cluster of yours
	@kubectl() { $(KUBECTL) "$$@"; }
	before=$$(kubectl --namespace trainshed-system get deployment trainshed --ignore-not-found --output name)
	kubectl apply -f crds/
	kubectl wait --for=condition=Established --timeout=60s -f crds/
	kubectl apply -k manifests/
	kubectl --namespace trainshed-system set image deployment/trainshed operator="$(IMAGE)"
	# Under the same name there may be another image now.
	if [ -n "$$before" ]; then kubectl --namespace trainshed-system rollout restart deployment/trainshed; fi
	kubectl --namespace trainshed-system rollout status deployment/trainshed --timeout=180s
	$(call took,deploy)

.PHONY: undeploy
undeploy: venv ## take it out again, and with it every job it knows
	@kubectl() { $(KUBECTL) "$$@"; }
	kubectl delete --ignore-not-found -k manifests/
	kubectl delete --ignore-not-found -f crds/
