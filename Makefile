# Everything a newcomer needs: `make demo` shows the result, `make test` checks the house.
# Both create .venv on first use and cost nothing when neither pyproject.toml nor constraints.txt has changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# -qq shows errors only: the progress of a large download says nothing in a log. --no-compile leaves byte code to the
# first import of each module: compiling everything at installation took 42 s of processor time.
INSTALL := $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt

# Byte code is written even where the environment says no: without it every process that the tests start would compile
# PyTorch anew: 3.0 s of processor time for its import instead of 1.4.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test lint types imports unit docs cluster format fuzz bench results clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     correct an embedded clip and write before/after pictures, a video and a report to demo/"
	@echo "make test     lint, types, import directions, tests and the manual"
	@echo "make docs     build the manual as HTML in build/docs/; a broken link or reference is an error"
	@echo "make cluster  tests of qrsc batch that need Ray and a server of S3, which this installs"
	@echo "make format   put the code in the project's format"
	@echo "make fuzz     damaged videos, faults and kills by the thousand; CASES=2000, SEED=0"
	@echo "make bench    run every script in benchmarks/"
	@echo "make results  write docs/results.md anew; RESULTS='--scenes 2 --size 320x240' takes minutes on a CPU"
	@echo "make clean    remove .venv, caches and demo/"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 10) else "qrsc needs Python 3.10 or newer, this is " + sys.version.split()[0] + "; name another one: make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing qrsc into $(VENV) (torch is large: a minute or two the first time)"
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing qrsc and its tools into $(VENV) (torch is large: a minute or two the first time)"
	@$(INSTALL) -e '.[dev]'
	@$(INSTALL) --no-deps stlpips_pytorch
	@touch $(VENV)/.runtime $@

demo: $(VENV)/.runtime
	@$(BIN)/qrsc demo

# mypy and Sphinx use one core each, the tests all of them.
test:
	@$(MAKE) --no-print-directory -j2 lint types imports docs
	@$(MAKE) --no-print-directory unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports

# COVERAGE=--cov measures what the tests cover, which takes a seventh more time. --dist worksteal: a worker that is done
# takes over tests of another.
COVERAGE ?=

unit: $(VENV)/.dev
	$(BIN)/python -m pytest $(COVERAGE) -n auto --maxprocesses=4 --dist worksteal

# -n: unknown references warn; -W: warnings are errors; -E: read every page anew, so that none is passed over.
docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -n -W --keep-going -E -q -b html docs build/docs
	@echo "the manual is build/docs/index.html"

cluster: $(VENV)/.dev
	@$(INSTALL) -e '.[cluster,storage]' 'moto[s3]' flask flask-cors
	$(BIN)/python -m pytest tests/farm -n 2 --dist loadfile

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

CASES ?= 2000
SEED ?= 0

fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz --cases $(CASES) --seed $(SEED) --keep build/fuzz

bench: $(VENV)/.runtime
	@set -e; for script in $(filter-out benchmarks/results.py benchmarks/comparison.py,$(wildcard benchmarks/[a-z]*.py)); do echo "== $$script"; $(BIN)/python "$$script"; done

results: $(VENV)/.runtime
	@$(BIN)/python benchmarks/results.py $(RESULTS)

clean:
	rm -rf $(VENV) demo build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage src/*.egg-info
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
