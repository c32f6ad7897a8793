# The two commands of the README. Both set up .venv by themselves the first time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.setup

.PHONY: run test lint check-types bench clean

run: $(SETUP)  ## train SAIL on Key-Door-Treasure and show the result
	@$(BIN)/sail train kdt

test: $(SETUP) lint check-types  ## everything that CI runs
	$(BIN)/pytest -n 2 --dist worksteal

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-types: $(SETUP)
	$(BIN)/mypy

bench: $(SETUP)  ## sail beside its peers, on this machine
	$(BIN)/pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[sb3]'
	$(BIN)/python benchmarks/kdt_speed.py
	$(BIN)/python benchmarks/atari_race.py

$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sail needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps rlax
	touch $(SETUP)

clean:
	rm -rf $(VENV) runs
