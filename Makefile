# One definition of green. `make help` lists the targets; `.ci/run` calls the same ones.
# Needs: Python 3.11 or later, git, make. Everything else comes hash-checked from requirements/dev.lock into .venv.

PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
PACKAGES := savant synthesis providerport runner evaluator admission candidateapply commandprovider driver
LINTED := $(PACKAGES) tests tools $(wildcard benchmarks examples)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.PHONY: help setup check check-static lint types layers docs docs-check test agents test-agents coverage demo bench lock agents-lock format clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/.installed ## create .venv from the hashed lock and install the project into it, editable

$(VENV)/.locked: requirements/dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Savant needs Python 3.11 or later; name one with: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	@touch $@

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	PATH="$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

check: check-static test ## everything that must hold before a change lands

check-static: lint types layers docs-check ## the part of check that runs no test

lint: setup ## ruff, and ruff format as a question
	$(BIN)/ruff check $(LINTED)
	$(BIN)/ruff format --check $(LINTED)

types: setup ## mypy --strict and pyright
	$(BIN)/mypy
	$(BIN)/basedpyright

layers: setup ## who may import whom
	$(BIN)/lint-imports

docs: setup ## regenerate what is generated under docs/
	$(BIN)/python tools/generate_docs.py

docs-check: setup ## compare what is generated under docs/ with what would be
	$(BIN)/python tools/generate_docs.py --check

test: setup ## the whole test suite, a process for each core, file by file (ARGS='-n 0' for one)
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile $(ARGS)

agents: setup ## install the agents that tests drive for real into .agents (needs node and npm; else tests say why they skip)
	$(BIN)/python tools/agents/install.py $(ARGS)

test-agents: setup ## every agent for real, the examples too (some minutes and some gigabytes)
	$(BIN)/python tools/agents/install.py --examples
	SAVANT_AGENT_EXAMPLES=1 $(BIN)/python -m pytest tests/agents --junit-xml=.agents/report.xml
	$(BIN)/python tools/agents/account.py .agents/report.xml --examples

coverage: setup ## every branch of the pure modules (the list is tool.savant.pure in pyproject.toml)
	$(BIN)/python tools/pure_coverage.py $(ARGS)

demo: setup ## one whole run, no account needed
	$(BIN)/savant demo

bench: setup ## ratios against floors measured in the same run
	$(BIN)/python -m benchmarks $(ARGS)

format: setup ## rewrite files as the formatter wants them
	$(BIN)/ruff check --fix $(LINTED)
	$(BIN)/ruff format $(LINTED)

lock: setup ## resolve requirements/dev.lock anew, within what pyproject.toml allows
	$(BIN)/uv pip compile --no-config --universal --python-version 3.11 --upgrade --generate-hashes --no-annotate \
	  --custom-compile-command "make lock" --group dev --output-file requirements/dev.lock pyproject.toml

agents-lock: setup ## resolve the agents' locks anew, from the versions named in tools/agents; no addresses
	for name in . examples; do (cd tools/agents/$$name && npm install --package-lock-only --omit-lockfile-registry-resolved \
	  --no-audit --no-fund) || exit 1; done
	for name in aider llm mini-swe-agent; do (cd tools/agents/examples && $(BIN)/uv pip compile --no-config --universal \
	  --python-version 3.11 --upgrade --generate-hashes --no-annotate --custom-compile-command "make agents-lock" \
	  --output-file $$name.lock $$name.in) || exit 1; done

clean: ## remove the environment, builds and caches
	rm -rf $(VENV) .agents dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
