# What a person or CI does with a checkout. Needs make and Python 3.11 or newer, nothing else:
# every target that runs Python first makes .venv and installs the versions of constraints.txt into it.

# The first interpreter on the PATH that is new enough; `make PYTHON=/path/to/python3.12 ...` decides otherwise.
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11; do \
	if $$candidate -c '$(NEW_ENOUGH)' 2>/dev/null; then echo $$candidate; break; fi; done)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

VENV ?= .venv
BIN := $(VENV)/bin
INTEROP_VENV ?= .venv-interop
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help demo test interop lint format build update-expected docs all clean

help:  ## Print this list
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "make %-17s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED)  ## Fit the logs in sample_runs and draw the plots, into demo/
	@mkdir -p demo
	$(BIN)/ebfit fit sample_runs -o demo/fit.json --plots demo/plots

test: $(INSTALLED_DEV)  ## Run the tests (two at a time; more options: make test PYTEST="-n 0 -x -k docs")
	$(BIN)/python -m pytest $(PYTEST)

# Slow tests differ so much that whoever is done takes tests from the other.
PYTEST ?= -n 2 --dist worksteal

interop: $(INTEROP_VENV)/.installed  ## Feed our exports to the released trainers, and read their logs (own environment, about 2 GB)
	$(INTEROP_VENV)/bin/python -m pytest tests/interop

lint: $(INSTALLED_DEV)  ## Check style, formatting and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(INSTALLED_DEV)  ## Put the code into the agreed format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

build: $(INSTALLED_DEV)  ## Build the wheel, install it into an empty environment and use it there
	rm -rf dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist
	bash .ci/check_wheel $(BIN)/python dist/*.whl

update-expected: $(INSTALLED_DEV)  ## Write sample_runs/expected.json anew; review its diff
	$(BIN)/python tests/expected.py

docs: $(INSTALLED_DEV)  ## Draw the figures of the documents anew, and the output that they show; review the diff
	$(BIN)/python docs/figures/make.py
	$(BIN)/python docs/refresh.py

all: lint test build interop  ## What CI runs

clean:  ## Remove the environment and everything that was built
	rm -rf $(VENV) $(INTEROP_VENV) build dist demo

$(BIN)/python $(INTEROP_VENV)/bin/python: %/bin/python:
	@$(or $(PYTHON),false) -c '$(NEW_ENOUGH)' 2>/dev/null || { \
		echo "ebfit needs Python 3.11 or newer: $(if $(PYTHON),$(PYTHON) is older or missing,the PATH has none)." \
			"Install one, or name it: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	rm -rf $*
	$(PYTHON) -m venv $* || { rm -rf $*; exit 1; }

$(INSTALLED): pyproject.toml constraints.txt $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

$(INSTALLED_DEV): pyproject.toml constraints.txt $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(INSTALLED) $@

# The last release with the batch-size ramp, the first and the newest with the step schedule. All are one package named
# megatron-core for Python 3.12, so each is unpacked into a folder of its own, which the tests put on the path of a
# process: what they use of it is Python that runs on 3.11 to 3.13, and a torch for 3.12 would be gigabytes more.
MEGATRON_CORE := 0.17.1 0.18.0 0.19.2
# Of these, tests/interop loads single files: their dependencies (JAX for one) would be gigabytes more.
WITHOUT_DEPENDENCIES := maxtext==0.2.5 InternEvo==0.5.2 nanotron==0.4 mosaicml==0.32.1

$(INTEROP_VENV)/.installed: pyproject.toml constraints-interop.txt Makefile $(INTEROP_VENV)/bin/python
	$(INTEROP_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints-interop.txt --editable '.[interop]'
	for version in $(MEGATRON_CORE); do \
		$(INTEROP_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade \
			--no-deps --ignore-requires-python --only-binary :all: --implementation cp --python-version 3.12 --abi cp312 \
			--target $(INTEROP_VENV)/megatron-core-$$version megatron-core==$$version || exit 1; \
	done
	$(INTEROP_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade \
		--no-deps --ignore-requires-python --only-binary :all: \
		--target $(INTEROP_VENV)/without-dependencies $(WITHOUT_DEPENDENCIES)
	@touch $@
