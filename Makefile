# All development and CI tasks. Each target installs what it needs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory
# Tests start hundreds of programs, each of which takes 0.25 s more if it compiles all modules: keep what is compiled.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= python3
PY := .venv/bin/python
BIN := .venv/bin
RUN := PYTHONPATH=tests:hack $(PY) -m
BED := $(RUN) testbed
CHARTS := $(RUN) charts
CONFORMANCE := $(RUN) conformance
IMAGE ?= ghcr.io/trainshed/trainshed:dev
# Files whose words `make lint` checks: hack/docs/words.txt and phrases.txt have the words to avoid.
PROSE := docs README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md Dockerfile kubectl-delivery.Dockerfile charts operator Makefile examples tests hack conftest.py
# The word lists themselves, checksums of Go modules, vendored files, misspelled names that tests need, and a part of a name in a pattern.
NO_PROSE := hack/docs/words.txt hack/docs/phrases.txt *.sum *.mod *.min.js *.min.css
MISSPELLED := anotations,contaners,ontainers,policys,preemptable
FAST := -m "not slow and not apiserver and not e2e and not bench and not neighbours"
# The tests that reach every branch of the packages of which branches are counted: all tests take twice as long meanwhile.
COUNTED := $(addprefix tests/unit/,api frameworks plan controller test_crd.py)
# How they count branches, which takes them twice as long: `make check` leaves it to `make test`.
COVERAGE := --cov --cov-report=term
# Where the tests of each ring are: every process would otherwise import all thirteen thousand first.
SERVED := tests/integration tests/conformance tests/chaos tests/simulation tests/unit/client tests/unit/manifests
END_TO_END := tests/e2e tests/conformance/test_end_to_end.py
# Number of processes for tests that wait for other processes half of the time, on two processors.
WAITING ?= 4
# Number of processes for the integration tests, which wait more than they compute. Each process has control planes of its own,
# and the test files of a folder share one, so the files run in the order of their folders.
JOBS ?= 3
# Tests with real processes share the machine with other work. A failing test is rerun and reported: docs/decisions.
RERUNS := --reruns 2 --reruns-delay 10 --max-suite-reruns 10 --rerun-show-tracebacks

# To deploy to your own cluster, name its context on the command line: make deploy CONTEXT=my-cluster. Otherwise only the test
# bed is used, whatever the environment variables are.
ifeq ($(origin CONTEXT),command line)
KUBECTL = command kubectl --context "$(CONTEXT)"
HELM = command helm --kube-context "$(CONTEXT)"
else
KUBECTL = "$$bed_kubectl" --kubeconfig "$$bed_kubeconfig"
HELM = "$$bed_helm" --kubeconfig "$$bed_kubeconfig"
BED_NEEDED := image
# One assignment per line: a failing command substitution inside another command would go unnoticed.
define find_programs
bed_kubectl=$$($(BED) kubectl)
	bed_helm=$$($(BED) helm)
	bed_kubeconfig=$$($(BED) kubeconfig)
endef
endif

# Print the name of the target and how long it took.
took = printf '\n%s: %d s\n\n' "$(1)" "$$SECONDS" >&2

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN { FS = ":.*## " } /^## / { printf "\n%s\n", substr($$0, 4) } /^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

## Start

.PHONY: demo
demo: venv .venv-demo/.ready ## Train a TensorFlow and a JAX job on this machine, without a cluster. One replica is killed on purpose.
	@$(BIN)/trainshed run --python .venv-demo --fail "spmd/worker-1@step 100" \
	    -f examples/tensorflow/parameter-server.yaml -f examples/jax/spmd.yaml
	$(call took,demo)

.PHONY: demo-cluster
demo-cluster: venv ## Start a cluster, install the operator, and run two training jobs.
	@$(RUN) demo prepare "$(IMAGE)"
	$(MAKE) deploy
	$(RUN) demo run
	$(call took,demo-cluster)

.PHONY: test
test: test-fast test-slow test-integration bench-limits test-e2e ## Run the tests of each change: fast, slow, integration, benchmarks, end-to-end. The workflow runs the long ones and those with neighbours as well.

## Development

.PHONY: venv
venv: .venv/.ready ## Create the virtual environment .venv with pinned packages.

.venv/.ready: constraints/dev.txt pyproject.toml
	@echo "Creating .venv. The first time takes about a minute." >&2
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is required: make PYTHON=python3.11")'
	test -x $(PY) || $(PYTHON) -m venv .venv
	@# --no-deps: the file names every package. pip looks for the newest coverage[toml] although coverage is pinned.
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r constraints/dev.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(PY) -m pip check --disable-pip-version-check >&2
	touch $@
	$(call took,.venv)

.PHONY: venv-sdk
venv-sdk: .venv-sdk/.ready ## Create .venv-sdk for the v1 SDK, which requires older packages.

.venv-%/.ready: constraints/%.txt
	@echo "Creating .venv-$*. The first time takes half a minute." >&2
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	.venv-$*/bin/python -m pip check --disable-pip-version-check >&2
	touch $@
	$(call took,.venv-$*)

.PHONY: docs
docs: .venv-docs/.ready ## Build the documentation site in build/site. Warnings are errors.
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	$(call took,docs)

.PHONY: check
check: lint ## Run all checks that need no cluster. Run this before each commit.
	@$(MAKE) test-fast COVERAGE=

.PHONY: lint
lint: venv ## Run linters, type checks, import rules, and checks of generated files and documentation.
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml operator
	$(RUN) generate_manifests --check
	$(RUN) code_families >/dev/null
	$(CONFORMANCE) --check
	$(RUN) docs --check
	$(PY) examples/embed.py --check
	$(BIN)/codespell --dictionary=- --dictionary=hack/docs/words.txt --ignore-words-list=$(MISSPELLED) \
	    $(addprefix --skip=,$(NO_PROSE)) $(PROSE)
	@# One expression for all phrases, which git finds fifty times faster than one for each in the user's language.
	found=0; LC_ALL=C git grep -nwiE "$$(paste -sd '|' hack/docs/phrases.txt)" -- $(PROSE) $(addprefix :!,$(NO_PROSE)) || found=$$?; test $$found -eq 1 # 1: no match
	$(MAKE) docs
	$(call took,lint)

# What pip-audit says where it cannot reach its service, or only a mirror of the packages without it.
UNREACHABLE := could not be audited|ConnectionError|Max retries exceeded|Could not connect|timed out

.PHONY: audit-dependencies
audit-dependencies: .venv-audit/.ready ## Check the pinned packages for known vulnerabilities. OPTIONAL=yes succeeds where the service that knows them cannot be reached.
	@mkdir -p build
	for pins in operator dev build; do
	found=0
	.venv-audit/bin/pip-audit --strict --progress-spinner off --no-deps --disable-pip --requirement "constraints/$$pins.txt" \
	    >build/audit.log 2>&1 || found=$$?
	cat build/audit.log
	if [ "$$found" -ne 0 ]; then
	if [ "$(OPTIONAL)" = yes ] && grep -qE '$(UNREACHABLE)' build/audit.log && ! grep -q '^Found ' build/audit.log; then
	echo "The packages were not checked: the service that knows vulnerabilities cannot be reached." >&2
	break
	fi
	exit "$$found"
	fi
	done
	$(call took,audit-dependencies)

.PHONY: fmt
fmt: venv ## Format the code and fix lint errors that have an automatic fix.
	@$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

.PHONY: manifests
manifests: venv ## Generate crds/, manifests/, and the chart's RBAC rules and values.
	@$(RUN) generate_manifests
	$(CHARTS)

.PHONY: constraints
constraints: venv ## Update and pin all dependencies with hashes. Takes minutes.
	@cd constraints
	$(LOCK) --output-file=operator.txt $(EXTRAS) ../pyproject.toml
	$(LOCK) --output-file=dev.txt --extra=dev $(EXTRAS) $(MORE) --constraint=operator.txt ../pyproject.toml
	$(LOCK) --output-file=command.txt --constraint=operator.txt ../pyproject.toml
	$(LOCK) --output-file=build.txt build.in
	$(LOCK) --output-file=release.txt release.in
	$(LOCK) --output-file=sdk.txt sdk.in
	$(LOCK) --output-file=kfp.txt kfp.in
	$(LOCK) --output-file=docs.txt docs.in
	$(LOCK) --output-file=demo.txt demo.in
	$(LOCK) --output-file=audit.txt audit.in
	$(LOCK) --output-file=sbom.txt sbom.in
	$(LOCK) --output-file=mutation.txt $(EXTRAS) --constraint=dev.txt mutation.in ../pyproject.toml

# The extras that the image has.
EXTRAS := --extra=operator --extra=ui --extra=stacks
# Those that only development has.
MORE := --extra=mcp --extra=notify
LOCK := ../$(BIN)/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

.PHONY: clean
clean: ## Remove environments, caches and build output. Keeps the cluster.
	@rm -rf .venv .venv-demo .venv-sdk .venv-kfp .venv-docs .venv-audit .venv-mutation .venv-sbom .venv-release .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage build dist operator/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: sizes
sizes: venv ## Print the lines of the product, the tests and hack by family. Fails if tests and hack have more of them than they may.
	@$(RUN) code_families

## Tests

.PHONY: test-fast
test-fast: venv ## Run unit tests and simulations, and check branch coverage unless COVERAGE is empty. Takes minutes, needs no cluster.
	@$(if $(COVERAGE),$(PY) -m pytest -q -n auto $(FAST) $(COVERAGE) $(COUNTED))
	$(PY) -m pytest -q -n auto $(FAST) $(if $(COVERAGE),$(addprefix --ignore=,$(COUNTED)))
	$(call took,test-fast)

.PHONY: test-slow
test-slow: venv ## Run local runs with real processes, and long simulations. Takes minutes, needs no cluster.
	@$(PY) -m pytest -q -n $(WAITING) -m slow tests/unit tests/simulation hack
	$(call took,test-slow)

.PHONY: test-integration
test-integration: venv venv-sdk ## Run the operator against a real API server with a simulated kubelet.
	@$(PY) -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "apiserver and not long" $(RERUNS) $(SERVED)
	$(call took,test-integration)

.PHONY: test-long
test-long: venv venv-sdk ## Run the cases that test-integration leaves out: more broken pages, crashes and policies. Takes minutes.
	@$(PY) -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "apiserver and long" $(RERUNS) \
	    --ignore tests/integration/test_release.py --ignore tests/integration/test_upgrade.py $(SERVED)
	$(call took,test-long)

.PHONY: test-release
test-release: venv ## Build the files of a release, and use them: a bare environment, the plug-in of kubectl, a real API server. Takes some minutes.
	@$(PY) -m pytest -v -m apiserver tests/integration/test_release.py
	$(call took,test-release)

.PHONY: test-upgrade
test-upgrade: venv ## Upgrade the operator from 0.1 and go back, with jobs of all kinds running, by Helm and by plain manifests. Takes minutes.
	@$(PY) -m pytest -v -m apiserver tests/integration/test_upgrade.py
	$(call took,test-upgrade)

.PHONY: test-reported
test-reported: venv ## Run the tests of the inputs that once went wrong (tests/reported), in every ring but the end-to-end tests.
	@$(PY) -m pytest -v -m "reported and not e2e" $(RERUNS)
	$(call took,test-reported)

.PHONY: test-random-jobs
test-random-jobs: venv ## Let a real API server check all objects of random jobs, and store none. N=5000 sets their number, SEED=1 the first one.
	@export TRAINSHED_RANDOM_JOBS=$(or $(N),5000) TRAINSHED_SEED=$(or $(SEED),1)
	$(PY) -m pytest -v tests/integration/test_rendered_objects.py
	$(call took,test-random-jobs)

.PHONY: test-reruns
test-reruns: venv venv-sdk ## Run the integration tests with a forced failure of each first try. Takes an hour. TESTS="tests/chaos -k leader" selects tests.
	@$(RUN) pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m apiserver -p support.fail_first_try --reruns 1 --rerun-show-tracebacks $(TESTS)
	$(call took,test-reruns)

.PHONY: chaos
chaos: venv ## Inject each fault at each write and watch event of the operator. Takes an hour and resumes after an interruption. ARGS=--help shows options.
	@$(RUN) chaos $(ARGS)
	$(call took,chaos)

.PHONY: soak
soak: venv ## Run two replicas with small jobs and random faults, and check for leaks and duplicates. MINUTES=120 sets the duration.
	@$(RUN) soak $(if $(MINUTES),--minutes $(MINUTES))
	$(call took,soak)

.PHONY: chaos-leader
chaos-leader: venv ## Kill, stop and freeze leaders, and measure the failover time. RUNS=5 sets the number of runs.
	@$(RUN) chaos.leaders $(if $(RUNS),--runs $(RUNS))
	$(call took,chaos-leader)

.PHONY: chaos-apiserver
chaos-apiserver: venv ## Make the API server unavailable in three ways, and measure the recovery time. MINUTES=10 sets the duration.
	@$(RUN) soak.outage $(if $(MINUTES),--minutes $(MINUTES))
	$(call took,chaos-apiserver)

.PHONY: mutants
mutants: venv venv-sdk ## Seed bugs one at a time and report which tests detect them first. Takes half an hour. ALL=yes runs every suite (hours).
	@$(RUN) mutants --keep $(if $(ALL),--all-levels) $(if $(ONLY),--only $(ONLY))
	$(call took,mutants)

.PHONY: mutation
mutation: .venv-mutation/.ready ## Change a module's expressions one at a time, and show the changes that no unit test detects. MODULE=plan/rules selects it.
	@rm -rf build/mutation
	mkdir -p build/mutation
	git ls-files -z --cached --others --exclude-standard conftest.py pyproject.toml operator tests hack crds manifests charts \
	    | xargs -0 cp --parents --target-directory=build/mutation
	cd build/mutation
	mv operator src # mutmut expects packages there
	mkdir src/trainshed.egg-info # the operator reads its own version
	printf 'Metadata-Version: 2.1\nName: trainshed\nVersion: 0\n' > src/trainshed.egg-info/PKG-INFO
	printf '[mutmut]\nsource_paths=src\nonly_mutate=src/trainshed/%s.py\nalso_copy=\n%s\npytest_add_cli_args_test_selection=\n%s\n' \
	    "$(or $(MODULE),plan/rules)" "$$(printf '  %s\n' conftest.py hack crds manifests charts)" "$$(printf '  tests/unit/%s\n' plan api frameworks)" > setup.cfg
	mutmut=../../.venv-mutation/bin/mutmut
	$$mutmut run
	$$mutmut results | awk -F: '/survived|no tests/ { print $$1 }' | while read -r mutant; do $$mutmut show "$$mutant"; done
	$(call took,mutation)

.PHONY: simulate
simulate: venv ## Run random schedules in the simulation on two processors. N=100000 sets their number. Resumes after an interruption, unless the code has changed.
	@$(RUN) simulation --schedules $(or $(N),100000) --processes 2 --state build/results/simulate.toml
	$(call took,simulate)

.PHONY: conformance
conformance: venv venv-sdk ## Check each row of training-operator v1's behaviour against a real API server, and print a table.
	@$(CONFORMANCE)
	$(call took,conformance)

.PHONY: sim-conformance
sim-conformance: venv ## Send random calls to the simulated and to a real API server, and compare. N=20000 sets the number of sequences.
	@$(RUN) simulation.differential $(or $(N),20000) --result build/results/sim-conformance.toml
	$(call took,sim-conformance)

# What the chart leaves off: rights that an administrator grants. The end-to-end tests use all of it.
ON_REQUEST := --set progress.logs.enabled=true,progress.endpoint.enabled=true,hangs.ncclRas.enabled=true,nodeHealth.enabled=true,record.enabled=true,notify.enabled=true

.PHONY: test-e2e
test-e2e: venv venv-sdk ## Run the examples, node failures and the quick start on a kind cluster with real containers.
	@$(BED) up --image "$(IMAGE)" --all-images
	$(MAKE) deploy VALUES="$(VALUES) $(ON_REQUEST)"
	$(PY) -m pytest -m "e2e and not long" $(RERUNS) $(END_TO_END)
	$(call took,test-e2e)

# Long end-to-end tests that have a target of their own.
OWN_TARGET := $(addprefix tests/e2e/,test_horovod.py test_local_examples.py test_progress_endpoint.py test_tutorial.py neighbours)

.PHONY: test-e2e-long
test-e2e-long: venv ## Run the end-to-end tests that test-e2e leaves out: more examples, a node that is cut off, an upgrade. Takes a quarter of an hour.
	@$(BED) up --image "$(IMAGE)" --all-images
	$(MAKE) deploy VALUES="$(VALUES) $(ON_REQUEST)"
	$(PY) -m pytest -m "e2e and long" $(RERUNS) $(addprefix --ignore=,$(OWN_TARGET)) $(END_TO_END)
	$(call took,test-e2e-long)

.PHONY: test-local-examples
test-local-examples: venv ## Run every example with trainshed run, in containers of docker. Takes some minutes.
	@$(PY) -m pytest -v -m e2e tests/e2e/test_local_examples.py
	$(call took,test-local-examples)

# End-to-end tests that `make test` leaves out, of which a recipe names the files.
define run_long_e2e
$(BED) up --image "$(IMAGE)"
	$(MAKE) deploy VALUES="$(VALUES) $(ON_REQUEST)"
	$(PY) -m pytest -v -s -m e2e $(RERUNS)
endef

.PHONY: test-horovod
test-horovod: venv ## Run Horovod's examples on the kind cluster. The first time compiles Horovod, which takes ten minutes.
	@$(run_long_e2e) tests/e2e/test_horovod.py
	$(call took,test-horovod)

.PHONY: test-hugging-face
test-hugging-face: venv ## Let an unmodified Trainer of Hugging Face report its progress on the kind cluster.
	@$(run_long_e2e) tests/e2e/test_progress_endpoint.py
	$(call took,test-hugging-face)

.PHONY: test-neighbours
test-neighbours: venv .venv-kfp/.ready ## Run the operator beside the real programs of neighbours, built from source. TESTS="tests/neighbours/test_kueue.py" selects tests.
	@$(PY) -m pytest -v -m neighbours $(RERUNS) $(or $(TESTS),tests/neighbours)
	$(call took,test-neighbours)

.PHONY: test-moving-in
test-moving-in: venv .venv-kfp/.ready ## Move jobs from the real training-operator v1 by the page about it, and run one as a step of Kubeflow Pipelines. Takes minutes.
	@$(PY) -m pytest -v -m neighbours $(RERUNS) tests/neighbours/test_moving_in.py tests/neighbours/test_pipelines.py
	$(call took,test-moving-in)

.PHONY: test-neighbours-e2e
test-neighbours-e2e: venv ## Run jobs with real containers beside the real neighbours on the kind cluster. TESTS="tests/e2e/neighbours/test_kueue.py" selects tests.
	@$(run_long_e2e) $(or $(TESTS),tests/e2e/neighbours)
	$(call took,test-neighbours-e2e)

.PHONY: test-tutorial
test-tutorial: venv ## Run the commands of the tutorial, in containers of docker and on the kind cluster. Takes some minutes.
	@$(run_long_e2e) tests/e2e/test_tutorial.py
	$(call took,test-tutorial)

.PHONY: test-sdk-suite
test-sdk-suite: venv venv-sdk ## Run the own end-to-end tests of training-operator v1's SDK on the kind cluster, and write their outcomes.
	@$(run_long_e2e) tests/e2e/neighbours/test_sdk_suite.py
	$(CONFORMANCE) --write
	$(call took,test-sdk-suite)

.PHONY: test-neighbours-short
test-neighbours-short: venv ## Run the tests beside Kueue, kube-scheduler and evaluators of conditions but for the long ones. The first time builds Kueue.
	@$(PY) -m pytest -q -n 2 --dist loadfile -m "neighbours and not long" $(RERUNS) tests/neighbours
	$(call took,test-neighbours-short)

# The tests that test-versions runs: CRDs, admission policies and rights, the lives of jobs of all kinds, and the client.
SPREAD := tests/integration tests/unit/client tests/chaos/test_admission.py tests/conformance/test_validation.py tests/conformance/test_surface.py

.PHONY: test-versions
test-versions: venv venv-sdk ## Run a spread of the integration tests on older releases of Kubernetes, built from source. Takes hours the first time. VERSIONS="1.30 1.36" selects releases.
	@for release in $(or $(VERSIONS),$$($(BED) releases)); do
	echo "Kubernetes $$release" >&2
	export TRAINSHED_KUBERNETES=$$release
	$(PY) -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m apiserver $(RERUNS) $(SPREAD)
	if [ "$$release" = 1.36 ]; then $(PY) -m pytest -q -m neighbours $(RERUNS) tests/neighbours/test_kubernetes_gang.py; fi
	done
	$(call took,test-versions)

.PHONY: bench-limits
bench-limits: venv ## Run the benchmarks that have limits, as a part of `make test`.
	@$(PY) -m pytest -s -m "bench and not long" --ignore tests/bench/test_finished_jobs.py tests/bench
	$(call took,bench-limits)

.PHONY: bench
bench: venv ## Run the benchmarks. Some have limits, others only record times.
	@$(PY) -m pytest -s -m bench --ignore tests/bench/test_finished_jobs.py tests/bench
	$(call took,bench)

.PHONY: bench-peer
bench-peer: venv ## Compare the operator with training-operator 1.9.4, which is built from its Go module.
	@$(RUN) peer_benchmark
	$(call took,bench-peer)

.PHONY: bench-scale
bench-scale: venv ## Measure one job of ten thousand pods and two thousand jobs of four. Takes some minutes.
	@$(RUN) peer_benchmark.scale
	$(call took,bench-scale)

.PHONY: bench-progress
bench-progress: venv ## Measure what N jobs (a hundred) cost that report their progress by their logs.
	@PROGRESS_JOBS=$(or $(N),100) $(PY) -m pytest -s tests/bench/test_progress.py
	$(call took,bench-progress)

.PHONY: bench-finished-jobs
bench-finished-jobs: venv ## Measure the cost of a new job, and the idle load, with ten thousand finished jobs.
	@TRAINSHED_FIGURES=build/results/finished.toml $(PY) -m pytest -s tests/bench/test_finished_jobs.py
	$(call took,bench-finished-jobs)

## Test bed: a cluster on this machine

.PHONY: cluster
cluster: venv ## Start the kind cluster.
	@$(BED) up
	$(call took,cluster)

.PHONY: cluster-down
cluster-down: venv ## Stop the kind cluster and remove everything it created.
	@$(BED) down

.PHONY: cluster-status
cluster-status: venv ## Show the state of the cluster.
	@$(BED) status

.PHONY: fresh
fresh: ## Run the README's commands as on a new machine, in a separate root directory. Needs root and takes an hour and a half. COMMANDS="'make demo-cluster'" selects commands.
	@if [ -x $(PY) ]; then $(BED) down; fi
	hack/testbed/fresh.sh $(COMMANDS)
	$(call took,fresh)

.PHONY: image
image: venv ## Build the operator's image and load it into the test bed.
	@$(BED) up --image "$(IMAGE)"

.PHONY: sbom
sbom: venv .venv-sbom/.ready ## Write CycloneDX SBOMs of the packages of the image and of the command to build/.
	@rm -rf build/image-packages
	$(PYTHON) -m venv --without-pip build/image-packages
	$(PY) -m pip --python build/image-packages install --quiet --disable-pip-version-check --no-deps --require-hashes \
	    -r constraints/operator.txt
	.venv-sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
	    --output-file build/sbom.json build/image-packages
	.venv-sbom/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application --output-reproducible \
	    --output-file build/sbom-command.json constraints/command.txt
	$(call took,sbom)

.PHONY: release
release: venv .venv-release/.ready sbom ## Make all files of a release in dist/, and tag its commit. VERSION=0.2.0 names it. ARGS=--help shows options.
	@$(RUN) release "$(or $(VERSION:v%=%),VERSION=0.2.0 is missing)" $(ARGS)
	$(call took,release)

.PHONY: publish
publish: venv .venv-release/.ready ## Publish what `make release` has made in dist/, where the commands of the forge are signed in. DRY_RUN=yes prints them.
	@$(RUN) release.publish $(if $(DRY_RUN),--dry-run)

.PHONY: deploy
deploy: venv $(BED_NEEDED) ## Install the chart in the test bed, or with CONTEXT=name in your cluster. VALUES='--set …' sets values.
	@$(find_programs)
	kubectl() { $(KUBECTL) "$$@"; }
	helm() { $(HELM) --namespace trainshed-system "$$@"; }
	before=$$(kubectl --namespace trainshed-system get deployment trainshed --ignore-not-found --output name)
	kubectl apply -f manifests/base/namespace.yaml
	image="$(IMAGE)"
	helm upgrade --install --take-ownership trainshed charts/trainshed \
	    --set image.repository="$${image%:*}",image.tag="$${image##*:}" $(VALUES)
	# The tag may refer to a new image, which the Deployment does not notice.
	if [ -n "$$before" ]; then kubectl --namespace trainshed-system rollout restart deployment/trainshed; fi
	kubectl --namespace trainshed-system rollout status deployment/trainshed --timeout=180s
	$(call took,deploy)

.PHONY: undeploy
undeploy: venv ## Uninstall the operator and its CRDs, and thereby delete every job.
	@$(find_programs)
	kubectl() { $(KUBECTL) "$$@"; }
	helm() { $(HELM) --namespace trainshed-system "$$@"; }
	helm uninstall --ignore-not-found --wait trainshed
	kubectl delete --ignore-not-found -f manifests/base/namespace.yaml -f crds/
