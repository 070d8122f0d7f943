# `make test` and `make demo` set everything up on a fresh machine that has Python 3.11 or newer and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help install demo test lint format check bench docs clean

help:            ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*##/\t/' | expand -t 12

install: $(STAMP) ## a virtual environment with the package and all that its tests need

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP)   ## train without labels, segment, execute, and show it: demo/report.html
	$(BIN)/compile-il demo --out demo --overwrite

test: $(STAMP)   ## every test but those marked slow
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations 25 --durations-min 5

lint: $(STAMP)   ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint test ## what continuous integration runs

bench: $(STAMP)  ## speed of worlds and experts beside their plain-Python twins, to results/
	$(BIN)/python -m benchmarks.worlds --out results/speed-worlds-cpu.json

docs: $(STAMP)   ## make the pictures, and the tables from results/, of documents anew
	$(BIN)/python -m experiments.docs_images docs/images/worlds.png
	$(BIN)/python -m experiments.paper.page docs/results.md
	$(BIN)/python -m experiments.tables README.md $(wildcard docs/*.md)

clean:           ## remove everything that make made
	rm -rf $(VENV) .cache demo build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
