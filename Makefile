# Every command lives in .venv/bin; `make .venv` builds it from pyproject.toml and constraints.txt.
.DELETE_ON_ERROR:
.SUFFIXES:

PYTHON ?= python3
EXTRAS := hub,quantize,demo,dev
BIN := .venv/bin
KEEP ?=
TEST_WORKERS ?= 2
TEST_ARGS ?=
FAULT_ARGS ?=
PACKAGES := contract edge_agent cloud_hub quantize
TYPED := $(PACKAGES) bench deploy docs tests

.PHONY: help .venv demo test check unit faults soak bench models docs format clean

help:
	@echo 'make demo     the whole system on this machine, on real data (KEEP=1 leaves it running)'
	@echo 'make test     every check and every test'
	@echo 'make faults   the fault programme, short: real processes broken in every way we know (needs root)'
	@echo 'make soak     the same with the counts of the promises (an hour)'
	@echo 'make check    ruff, mypy, import rules, dependencies'
	@echo 'make bench    throughput, latency, memory and start-up of the edge agent'
	@echo 'make models   rebuild the models in models/ from public data'
	@echo 'make docs     rewrite docs/reference/ from the code'
	@echo 'make format   let ruff format and sort'
	@echo 'make clean    remove what these commands made, .venv included'

.venv: .venv/.stamp

# Made once; changed requirements are installed into it (the constraints fix every version).
.venv/.stamp: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
	  echo '$(PYTHON) is missing: install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "Python %d.%d is too old: 3.11 or newer is needed; name one: make PYTHON=/path/to/python3" % v[:2])'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo '$(PYTHON) cannot make environments: apt-get install python3-venv' >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[$(EXTRAS)]'
	$(BIN)/python -m pip check
	touch $@

demo: .venv/.stamp
	KEEP=$(KEEP) $(BIN)/python -m deploy.demo

test: check unit

unit: .venv/.stamp
	$(BIN)/python -m pytest -n $(TEST_WORKERS) $(TEST_ARGS)

check: .venv/.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports
	$(BIN)/deptry .

faults: .venv/.stamp
	$(BIN)/python -m bench.faults --tier ci --report faults-report.json --keep run/faults $(FAULT_ARGS)

soak: .venv/.stamp
	$(BIN)/python -m bench.faults --tier soak --report soak-report.json --keep run/soak $(FAULT_ARGS)

bench: .venv/.stamp
	$(BIN)/python -m bench.edge --json

models: .venv/.stamp
	set -e; for recipe in models/*/recipe.py; do $(BIN)/quantize recipe "$$(dirname "$$recipe")"; done

docs: .venv/.stamp
	$(BIN)/python -m docs.generate

format: .venv/.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-base dist build run demo-report.json bench-report.json faults-report.json soak-report.json \
	  .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
