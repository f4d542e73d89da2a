# Each target makes what it needs from nothing and is quick the second time: a stamp in the virtual
# environment is newer than pyproject.toml once the packages it stands for are installed.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet
ENVIRONMENT := $(VENV)/.stamp-environment
RUNTIME := $(VENV)/.stamp-runtime
TORCH_VERSION := 2.13.0
TORCH := $(VENV)/.stamp-torch-$(TORCH_VERSION)
DEV := $(VENV)/.stamp-dev
BENCH := $(VENV)/.stamp-bench
TREES := $(wildcard src tests benchmarks docs)
BENCHMARKS = $(basename $(notdir $(shell grep -l __main__ benchmarks/*.py)))

.PHONY: demo test check bench format docs clean

demo: $(RUNTIME)
	$(BIN)/steersman demo

test: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

check: $(DEV)
	$(BIN)/ruff format --check $(TREES)
	$(BIN)/ruff check $(TREES)
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python docs/generate.py --check
	$(BIN)/towncrier build --draft --version next > /dev/null

bench: $(BENCH)
	status=0; for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name || status=1; done; exit $$status

format: $(DEV)
	$(BIN)/ruff check --fix --select I $(TREES)
	$(BIN)/ruff format $(TREES)

docs: $(DEV)
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(ENVIRONMENT):
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade 'pip>=25.1'
	touch $@

# What a user of every part but the fit needs; no torch.
$(RUNTIME): pyproject.toml | $(ENVIRONMENT)
	$(PIP) --editable '.[client,negmas,plots,postgres,serve]'
	touch $@

# torch is large and pinned: first and on its own, so that no other package can move it.
$(TORCH): | $(ENVIRONMENT)
	$(PIP) torch==$(TORCH_VERSION)
	touch $@

$(DEV): pyproject.toml $(TORCH)
	$(PIP) --editable '.[checkpoints,client,fit,negmas,onnx,parquet,plots,postgres,serve]' --group dev
	touch $@ $(RUNTIME)

$(BENCH): $(DEV)
	$(PIP) --group bench
	touch $@
