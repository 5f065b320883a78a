# Everything happens in .venv, from hashed locks. Stamp files make a second run instant.

SHELL := /bin/bash
VENV  := .venv
BIN   := $(VENV)/bin
ARGS  ?=

# The newest of these that is 3.11 or later is used; `make install PYTHON=/path/to/python` overrides.
CANDIDATES := python3.13 python3.12 python3.11 python3

# The locks are complete, so pip need not resolve (--no-deps): it checks hashes and unpacks.
PIP_INSTALL := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 $(BIN)/python -m pip install --quiet --no-deps
LOCKED      := $(PIP_INSTALL) --require-hashes

UV      := uv==0.13.7
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
           --custom-compile-command 'make lock' $(ARGS)

# From the wheel, never the system's; no scripts of packages run, nothing is reported home.
NPM := PATH="$(CURDIR)/$(BIN):$$PATH" "$(CURDIR)/$(BIN)/npm" --ignore-scripts --no-audit --no-fund --no-update-notifier \
       --loglevel error

CHECKED := $(wildcard src tests bench tools)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install tools up test test-long fast check format docs bench lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.dev $(VENV)/.editable ## Make .venv with everything that developing needs

tools: $(VENV)/.tools ## Install what some tests run from Node: the MCP conformance suite and the harnesses

up: $(VENV)/.runtime $(VENV)/.editable ## Start Wakeline, installing what it needs first (options: ARGS="…")
	@exec $(BIN)/wakeline up $(ARGS)

# A worker per core, but not more than a laptop stands.
WORKERS := -n auto --maxprocesses 4 --dist loadfile

test: install ## Run all tests but the long ones (options for pytest: ARGS="…")
	@$(BIN)/pytest -m "not long" $(WORKERS) $(ARGS)

# Each of them runs a harness, a server and a model; more than two at a time would only wait for each other.
# A run that ended otherwise than with results (2: it was broken off) was not whole.
test-long: install tools ## Run the long tests: every situation with the real harnesses; whole runs are kept in docs/
	@$(BIN)/pytest -m "long or probe" -n 2 --timeout 300 --junitxml $(VENV)/long.xml $(ARGS); status=$$?; \
	  $(if $(ARGS),,if [ $$status -le 1 ]; then $(BIN)/python tools/long_results.py $(VENV)/long.xml; fi;) exit $$status

fast: install ## Run the inner loop: decisions, the store on SQLite, one module over HTTP
	@$(BIN)/pytest -m "not slow and not long" $(WORKERS) $(ARGS)

check: install ## Check format, rules, types, import arrows, sizes, the cost of MCP tools and the freshness of generated docs
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/mypy $(CHECKED)
	$(BIN)/lint-imports
	$(BIN)/python tools/size.py
	$(BIN)/python tools/mcp_tokens.py
	$(BIN)/python tools/reference.py --check

format: install ## Format the code and fix what can be fixed
	$(BIN)/ruff format $(CHECKED)
	$(BIN)/ruff check --fix $(CHECKED)

docs: install ## Write the generated pages again, and the snippets into the pages that show them
	@$(BIN)/python tools/reference.py
	@$(BIN)/python tools/snippets.py

bench: install $(VENV)/.bench ## Run the benchmarks (options: ARGS="…")
	@$(BIN)/python -m bench $(ARGS)

lock: $(VENV)/.venv ## Pin in requirements/ what pyproject.toml asks for (newer versions: ARGS=--upgrade)
	@$(PIP_INSTALL) '$(UV)'
	@mkdir -p requirements
	$(COMPILE) --group build -o requirements/runtime.txt pyproject.toml
	$(COMPILE) --group dev -o requirements/dev.txt -c requirements/runtime.txt
	$(COMPILE) --group bench -o requirements/bench.txt -c requirements/runtime.txt -c requirements/dev.txt
	$(COMPILE) --group tools -o requirements/tools.txt -c requirements/runtime.txt -c requirements/dev.txt
	@$(LOCKED) --requirement requirements/tools.txt
	@cd requirements/node && $(NPM) install --package-lock-only --omit-lockfile-registry-resolved

clean: ## Remove .venv, caches and build results
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A candidate must run, not merely exist: version managers leave stubs on PATH that only complain.
$(VENV)/.venv:
	@set -e; \
	recent='import sys; sys.exit(sys.version_info < (3, 11))'; \
	python="$(PYTHON)"; fallback=; \
	if [ -n "$$python" ]; then \
	  "$$python" -c "$$recent" 2>/dev/null \
	    || { echo "Wakeline needs Python 3.11 or later; PYTHON=$$python is not that." >&2; exit 1; }; \
	else \
	  for candidate in $(CANDIDATES); do \
	    "$$candidate" -c "$$recent" 2>/dev/null || continue; \
	    fallback="$${fallback:-$$candidate}"; \
	    if "$$candidate" -c 'import ensurepip, venv' 2>/dev/null; then python="$$candidate"; break; fi; \
	  done; \
	  python="$${python:-$$fallback}"; \
	  if [ -z "$$python" ]; then \
	    echo "Wakeline needs Python 3.11 or later; found: $$(python3 --version 2>&1 || echo none)." >&2; \
	    echo "Install one, or name it: make install PYTHON=/path/to/python3.12" >&2; exit 1; \
	  fi; \
	fi; \
	"$$python" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$$python cannot make virtual environments: its venv or ensurepip module is missing." >&2; \
	  echo "On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }; \
	echo "Making $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: requirements/runtime.txt | $(VENV)/.venv
	@echo "Installing $<"
	@$(LOCKED) --requirement $<
	@touch $@

$(VENV)/.dev: requirements/dev.txt | $(VENV)/.runtime
	@echo "Installing $<"
	@$(LOCKED) --requirement $<
	@touch $@

$(VENV)/.bench: requirements/bench.txt | $(VENV)/.dev
	@echo "Installing $<"
	@$(LOCKED) --requirement $<
	@touch $@

# npm puts node_modules beside a package.json, so the two files are copied to where it may.
$(VENV)/.tools: requirements/tools.txt requirements/node/package.json requirements/node/package-lock.json | $(VENV)/.dev
	@echo "Installing $< and requirements/node"
	@$(LOCKED) --requirement $<
	@mkdir -p $(VENV)/tools && cp requirements/node/package.json requirements/node/package-lock.json $(VENV)/tools/
	@cd $(VENV)/tools && $(NPM) ci
	@touch $@

# The runtime lock holds the build backend too.
$(VENV)/.editable: pyproject.toml | $(VENV)/.runtime
	@$(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@
