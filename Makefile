# `make run` and `make test` work on a fresh machine with Python 3.11 to 3.13.
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { echo $$p; break; }; done)
# torch is installed first, so that a machine without a GPU can choose a CPU build:
#   make run TORCH=torch==2.13.0+cpu PIP_ARGS="--extra-index-url <an index with CPU builds>"
TORCH ?= $(shell grep '^torch' requirements.txt)
PIP_ARGS ?=
PORT ?= 8501
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q install $(PIP_ARGS)
# two workers suit two cores; tests that measure never rely on having a core for themselves
# tests/conftest.py puts them in order: the longest first
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: run test test-all check bench vllm vllm-cpu worker clean

run: $(VENV)/.app
	$(BIN)/streamlit run app.py --server.port $(PORT)

worker: $(VENV)/.app
	$(BIN)/python -m worker

test: $(VENV)/.dev
	$(PYTEST) -m "not slow and not gpu"

# one after the other: real servers need both cores, and some tests slow one down on purpose
test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -m "slow and not gpu"

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy settings.py app.py
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only -p no:xdist

vllm: $(VENV)/.app
	$(BIN)/python scripts/make_vllm.py .venv-vllm

vllm-cpu: $(VENV)/.app
	$(BIN)/python scripts/make_vllm.py .venv-vllm --cpu

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "Linkworth needs Python 3.11, 3.12 or 3.13: install one, or name it with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.torch: $(VENV)/.python
	$(PIP) "$(TORCH)"
	@touch $@

$(VENV)/.app: requirements.txt $(VENV)/.torch
	$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.app
	$(PIP) -r requirements-dev.txt
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
