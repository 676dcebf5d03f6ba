# Everything a newcomer needs: `make demo`, `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CLANG ?= $(shell for name in clang clang-21 clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14; do command -v $$name && break; done)
OBJECTS := packages/cotenant/src/cotenant/drivers/ebpf/objects
BPF_OBJECTS := $(patsubst bpf/%.bpf.c,$(OBJECTS)/%.bpf.o,$(wildcard bpf/*.bpf.c))
BENCHES ?= placement coldstart extender kube nodetick keeper quota quota_pods rebalancing devices claims cpus groups gangs load_aware predicted_use judging learning why traces webhook console

.PHONY: help setup demo compare test test-long test-all properties check lint types floors bench profile bpf console screenshots docs manifests clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## make .venv with everything the lab and the tests need

$(STAMP): $(wildcard packages/*/pyproject.toml)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  -e 'packages/cotenant[cluster,node,fleet,openstack,traces,credit,png,dev]' -e 'packages/cotenant-lab[compare,tune]' -e packages/cotenant-local
	$(BIN)/cotenant warm
	@touch $@

demo: setup ## the whole loop on this machine: a local cluster a profile, a rising load; then a service and batch work on one core, where root
	$(BIN)/cotenant demo --out runs/demo

compare: setup ## the founding comparison in the lab: policies on one co-located workload, a table and a report
	$(BIN)/cotenant lab compare --workload founding --seeds 3 --out runs/compare

# Tests start hundreds of Python processes. Without compiled bytecode on disk, each of them and each worker compiles every source again.
test test-long check: export PYTHONDONTWRITEBYTECODE =

# A worker a core; every second one takes cases that wait for processes first (tests/distribution.py). Each collects 20,000 cases for 20 s of CPU.
WORKERS ?= 2
CHECKERS ?= 2
WITHOUT_SERVERS := packages tests/unit tests/property tests/conformance
ROUNDS ?= 20

test: setup ## every test but the long ones, and a third of the cases of each property; prints what was skipped and why
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadscope -rs -m 'not long'

test-long: setup ## the long tests alone: emulated machines, whole clusters, experiments, benchmarks; and all cases of each property
	COTENANT_ALL_EXAMPLES=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope -rs -m 'long or hypothesis'

test-all: test test-long ## every test

properties: setup ## the properties on new random cases, ROUNDS times; then pods that no event woke, in as many worlds
	for round in $$(seq $(ROUNDS)); do COTENANT_RANDOM_PROPERTIES=1 $(BIN)/python -m pytest -q -n $(WORKERS) tests/property || exit 1; done
	$(BIN)/python -m tests.property.placement.test_woken 0 $$((100 * $(ROUNDS)))
	$(BIN)/python -m tests.property.placement.test_woken 0 $$((100 * $(ROUNDS))) varied

check: setup ## lint, strict types, floors, and the fast tests that need no server
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint types floors
	$(BIN)/python -m pytest -n $(CHECKERS) --dist loadscope -m 'not slow' $(WITHOUT_SERVERS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

floors: setup
	$(BIN)/lint-imports

bench: setup ## speed: a JSON object a line on standard output, one for each of BENCHES
	@for name in $(BENCHES); do $(BIN)/python -m bench.$$name --json || exit 1; done

profile: setup ## where the time of scheduling decisions goes; TRACE=1: the calls of one
	$(BIN)/python -m tools.decision $(if $(TRACE),--trace)

bpf: $(OBJECTS)/SHA256SUMS ## build the eBPF objects: needs clang and libbpf's headers, nothing of the running kernel

$(filter %/zone_sub_latency.bpf.o %/zone_sub_throughput.bpf.o %/zone_sub_weighted.bpf.o %/zone_sub_exclusive.bpf.o %/zone_sub_siblings.bpf.o %/zone_sub_apart.bpf.o,$(BPF_OBJECTS)): \
  $(OBJECTS)/zone_sub_%.bpf.o: bpf/zone_%.bpf.c

$(OBJECTS)/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/*.h)
	@test -n "$(CLANG)" || { echo "make bpf needs clang and libbpf's headers, on Debian: apt-get install clang libbpf-dev" >&2; exit 1; }
	@mkdir -p $(@D)
	$(CLANG) --target=bpf -mcpu=v3 -g -O2 -Wall -Werror -idirafter /usr/include/$(shell uname -m)-linux-gnu -c $< -o $@

# the digests that a loader compares, shipped with the objects
$(OBJECTS)/SHA256SUMS: $(BPF_OBJECTS)
	cd $(@D) && sha256sum $(notdir $(BPF_OBJECTS)) > $(@F)

console: setup ## build the console's page into the package: needs node and npm, nothing else does
	cd console && npm ci --no-audit --no-fund && npm run --silent check && npm run --silent build
	$(BIN)/python -m tools.console_digest

screenshots: setup ## take the pictures of the README and the guides from a running cluster: needs Chromium; the report's after `make compare`
	$(BIN)/python -m tools.screenshots

docs: setup ## regenerate the pages that are derived from code
	$(BIN)/python -m cotenant lab metrics --markdown > docs/metrics.md
	$(BIN)/python -m tools.rooms > docs/architecture.svg
	$(BIN)/python -m tools.owner_modes docs/guide/agent.md docs/guide/agent.zh-CN.md
	$(BIN)/python -m tools.matrix > docs/matrix.md

manifests: setup ## render the manifests beside the chart from it: needs helm
	$(BIN)/python -m tools.manifests

clean: ## remove what can be made again
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build dist packages/*/dist $(OBJECTS)/*.bpf.o $(OBJECTS)/SHA256SUMS
