# Everything a working copy of sash needs; `make help` lists the targets.
#
# Stamps keep it quick. $(VENV)/.deps is as old as the last install of the lock, and
# $(VENV)/.sash as the last install of the package: a newer lock renews both, a newer file in
# core/ or src/ the second. Directories count as files, so deletions are noticed. Both need
# $(VENV)/.tools only, what builds the core: it is compiled while the rest is downloaded.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
TESTS ?= tests
PYTEST_ARGS ?=

PY := $(VENV)/bin/python
PIP_INSTALL := $(PY) -m pip --disable-pip-version-check install --quiet
# The same with the steps of the compiler, which takes minutes, as they are done.
PIP_BUILD := $(PY) tools/progress.py $(subst --quiet,--verbose,$(PIP_INSTALL)) --no-build-isolation --no-deps
SOURCES := CMakeLists.txt pyproject.toml LICENSE $(wildcard README.md) \
           $(shell find core src -name __pycache__ -prune -o -print 2>/dev/null)
CORE_FILES := $(wildcard core/*.hpp core/*/*.hpp core/*/*.cpp)
SANITIZED := build/sanitize
# Python itself is not instrumented: the sanitizers' runtimes must come first, and libstdc++
# with them, or a C++ exception finds no handler to intercept.
PRELOAD = $(foreach lib,libasan.so libubsan.so libstdc++.so,$(shell $(CXX) -print-file-name=$(lib)))

MAKEFLAGS += -j2
READY := $(VENV)/.sash $(VENV)/.deps

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help test run tour check format bench bench-spark figures figures-full sanitize cards lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'Variables: PYTHON=$(PYTHON)  JOBS=$(JOBS)  TESTS=$(TESTS)  PYTEST_ARGS="-k name"  CXX'

test: $(READY) ## build, install what is needed, run all tests
	$(PY) -m pytest $(TESTS) -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)

run: $(READY) ## build, then stream late payments through a local Spark, verify the results, write out/report.html
	$(VENV)/bin/sash demo

tour: $(READY) ## build, then print the paper's worked example step by step
	$(PY) -m sash.window.tour

check: $(VENV)/.deps ## lint, format and types; changes nothing
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(if $(CORE_FILES),$(VENV)/bin/clang-format --dry-run -Werror $(CORE_FILES))

format: $(VENV)/.deps ## format Python and C++ in place
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(if $(CORE_FILES),$(VENV)/bin/clang-format -i $(CORE_FILES))

bench: $(READY) ## print the benchmark tables, every answer verified first: about 25 minutes; PARTS=late,lost for some
	$(PY) -m benchmarks $(if $(PARTS),--only $(PARTS))

bench-spark: $(READY) ## the same for Spark on two cores, against Spark's own windows: about 15 minutes; PARTS=late for one
	$(PY) -m benchmarks.spark $(PARTS)

figures: $(READY) ## redraw the paper's figures from a quick run: about two minutes, then experiments/figures/report.html
	$(PY) -m experiments --quick

figures-full: $(READY) ## the same for the record: up to an hour on a quiet machine; goes on where it was stopped
	$(PY) -m experiments

sanitize: $(SANITIZED)/.sash ## run the model and keyed tests on a core built with ASan and UBSan (gcc)
	env PYTHONPATH=$(SANITIZED) PYTHONMALLOC=malloc LD_PRELOAD="$(strip $(PRELOAD))" \
	    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	    $(PY) -m pytest tests/window/model $(wildcard tests/keyed/test_keyed_*.py) -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

cards: $(READY) ## write the cards of the monoids into docs/monoids.md
	$(PY) tools/cards.py docs/monoids.md

lock: ## pin the whole development environment anew (Python 3.11)
	@tools/preflight.sh $(PYTHON)
	$(PYTHON) tools/lock.py

clean: ## remove the environment and everything built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.tools: requirements-dev.lock
	@tools/preflight.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -c requirements-dev.lock cmake nanobind ninja scikit-build-core
	@touch $@

# No bytecode ahead: most of what is installed is never imported.
$(VENV)/.deps: $(VENV)/.tools
	$(PIP_INSTALL) --no-compile -r requirements-dev.lock
	@touch $@

# Without make's flags, which would have ninja share the two jobs that are meant for pip.
$(VENV)/.sash: $(VENV)/.tools $(SOURCES)
	@tools/preflight.sh $(PYTHON)
	MAKEFLAGS= $(PIP_BUILD) --force-reinstall .
	@touch $@

$(SANITIZED)/.sash: $(VENV)/.deps $(SOURCES)
	@tools/preflight.sh $(PYTHON)
	rm -rf $(SANITIZED)
	$(PIP_BUILD) --target $(SANITIZED) \
	    --config-settings=build-dir=build/sanitize-{wheel_tag} \
	    --config-settings=cmake.build-type=Debug \
	    --config-settings=cmake.define.SASH_SANITIZE=ON .
	@grep -q __asan_init $(SANITIZED)/sash/_core*.so || \
	    { echo 'The core was built without AddressSanitizer; use a compiler that has it.' >&2; exit 1; }
	@touch $@
