# Everything a working copy of sash needs; `make help` lists the targets.
#
# Stamp files avoid repeated work. $(VENV)/.demo dates from the last install of what the demo needs,
# $(VENV)/.deps from that of everything else, and $(VENV)/.sash from the last install of the package:
# a newer lock renews all, a newer file in core/ or src/ the last. Directories count as files, so
# deletions are noticed. $(VENV)/.demo and $(VENV)/.sash depend only on $(VENV)/.tools, which builds
# the core: it is compiled while the rest is downloaded.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
TESTS ?= tests
PYTEST_ARGS ?=

PY := $(VENV)/bin/python
PIP_INSTALL := $(PY) -m pip --disable-pip-version-check install --quiet
# The same, with the steps of the compiler shown as they finish, because it takes minutes.
PIP_BUILD := $(PY) tools/progress.py $(subst --quiet,--verbose,$(PIP_INSTALL)) --no-build-isolation --no-deps
SOURCES := CMakeLists.txt pyproject.toml LICENSE $(wildcard README.md) \
           $(shell find core src -name __pycache__ -prune -o -print 2>/dev/null)
CORE_FILES := $(wildcard core/*.hpp core/*/*.hpp core/*/*.cpp)
SANITIZED := build/sanitize
FLINK := build/flink
# Python itself is not instrumented: the sanitizers' runtimes must be loaded first, and libstdc++
# with them, or a C++ exception finds no handler to intercept.
PRELOAD = $(foreach lib,libasan.so libubsan.so libstdc++.so,$(shell $(CXX) -print-file-name=$(lib)))

# Some images set this; every process would compile all that it imports, and Spark starts many.
unexport PYTHONDONTWRITEBYTECODE

MAKEFLAGS += -j2
READY := $(VENV)/.sash $(VENV)/.deps

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help test run explore tour docs docs-serve pictures check format bench bench-spark bench-flink figures figures-full \
        sanitize wheel compilers faults soak kafka-kills fuzz steps fuzz-bytes cards lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'Variables: PYTHON=$(PYTHON)  JOBS=$(JOBS)  TESTS=$(TESTS)  PYTEST_ARGS="-k name"  CXX'

test: $(READY) $(VENV)/spark.jsa ## build, install dependencies, run all tests
	$(PY) -m pytest $(TESTS) -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)

run: $(VENV)/.sash $(VENV)/.demo ## stream late payments through a local Spark, verify the results, write out/report.html
	$(VENV)/bin/sash demo

explore: $(READY) ## build and break a window by hand, in the browser
	$(VENV)/bin/sash explore

tour: $(READY) ## print the paper's worked example step by step
	$(PY) -m sash.window.tour

check: $(VENV)/.deps ## check lint, format and types; changes nothing
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(if $(CORE_FILES),$(VENV)/bin/clang-format --dry-run -Werror $(CORE_FILES))

format: $(VENV)/.deps ## format Python and C++ in place
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(if $(CORE_FILES),$(VENV)/bin/clang-format -i $(CORE_FILES))

bench: $(READY) ## print the benchmark tables, after verifying every answer: about 25 minutes; PARTS=late,lost runs some of them
	$(PY) -m benchmarks $(if $(PARTS),--only $(PARTS))

bench-spark: $(READY) ## the same for Spark on two cores, against Spark's own windows: about 16 minutes; PARTS=late runs one of them
	$(PY) -m benchmarks.spark $(PARTS)

bench-flink: $(READY) $(FLINK)/.done ## the same events through Flink SQL (installed to build/flink, 850 MB) and sash on Spark: ten minutes; ROWS=4000000
	$(PY) -m benchmarks.flink $(if $(ROWS),--rows $(ROWS))

figures: $(READY) ## redraw the paper's figures from a quick run and write experiments/figures/report.html: about two minutes
	$(PY) -m experiments --quick

figures-full: $(READY) ## the same at the paper's sizes: up to an hour on an idle machine; resumes where it was stopped
	$(PY) -m experiments

wheel: $(VENV)/.deps ## build a wheel for this Python, on Linux a manylinux one, and put it into dist
	$(PY) tools/wheel.py dist

# Nothing is installed: what counts is that the core compiles, without a warning.
compilers: $(VENV)/.tools ## compile the core with -Werror by g++ and clang++, with and without code for particular processors
	for compiler in g++ clang++; do for portable in OFF ON; do \
	    $(VENV)/bin/cmake -S . -B build/compilers/$$compiler-$$portable -G Ninja -DCMAKE_BUILD_TYPE=Release \
	        -DCMAKE_MAKE_PROGRAM=$(abspath $(VENV)/bin/ninja) -DPython_EXECUTABLE=$(abspath $(PY)) \
	        -DCMAKE_CXX_COMPILER=$$compiler -DSASH_STRICT=ON -DSASH_PORTABLE=$$portable \
	        -Dnanobind_DIR="$$($(PY) -m nanobind --cmake_dir)" >/dev/null && \
	    MAKEFLAGS= $(VENV)/bin/ninja -C build/compilers/$$compiler-$$portable || exit 1; done; done

sanitize: $(SANITIZED)/.sash ## run the model and keyed tests on a core built with ASan and UBSan (gcc)
	env PYTHONPATH=$(abspath $(SANITIZED)) PYTHONMALLOC=malloc LD_PRELOAD="$(strip $(PRELOAD))" \
	    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	    $(PY) -m pytest tests/window/model $(wildcard tests/keyed/test_keyed_*.py tests/keyed/test_kinds*.py) \
	    $(wildcard tests/keyed/test_session*.py) tests/keyed/test_saved_state.py tests/keyed/test_deletes.py \
	    -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

faults: $(READY) ## streams on Spark through hundreds of faults, compared with the oracle: MINUTES=90 CONTROL=--unordered; resumes
	env PYTHONPATH=tests $(PY) -m campaigns.faults --minutes $(or $(MINUTES),90) --jobs $(JOBS) $(CONTROL)

soak: $(READY) ## a stream at a steady rate: MINUTES=60; draws time, memory and state, which must stay flat
	env PYTHONPATH=tests $(PY) -m campaigns.soak --minutes $(or $(MINUTES),60)

fuzz: $(READY) ## random windows, tables, streams and questions against answers written from the documentation: MINUTES=10 SEED=0
	env PYTHONPATH=tests $(PY) -m campaigns.fuzz --minutes $(or $(MINUTES),10) --seed $(or $(SEED),0) --jobs $(JOBS)

kafka-kills: $(READY) ## a million events from Kafka to Delta by a pipeline that is killed ten times, compared row for row
	env PYTHONPATH=tests $(PY) -m campaigns.kafka_kills

steps: $(READY) ## millions of steps of windows and the keyed engine on tiny nodes, against plain lists: STEPS=10000000 SEED=0
	env PYTHONPATH=tests $(PY) -m campaigns.steps --steps $(or $(STEPS),10000000) --seed $(or $(SEED),0) --jobs $(JOBS)

fuzz-bytes: $(READY) ## change bytes of KeyedWindows and load them; COUNT=100000 SEED=0
	cd tests && ../$(PY) -m support.fuzz_bytes --count $(or $(COUNT),100000) --seed $(or $(SEED),0)

cards: $(READY) ## regenerate the table of monoids in docs/monoids.md
	$(PY) tools/cards.py docs/monoids.md

docs: $(READY) ## build the documentation as a site, out/site; broken links and missing references fail
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet

docs-serve: $(READY) ## serve the documentation on this machine, and build it again whenever a page changes
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs serve

pictures: $(READY) ## draw the pictures of the explorer in docs/pictures again; needs chromium
	$(PY) docs/pictures/explorer.py

lock: ## update the pins of the development environment (Python 3.11)
	@tools/preflight.sh $(PYTHON)
	$(PYTHON) tools/lock.py

clean: ## remove the environment and all build products
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.tools: requirements-dev.lock
	@tools/preflight.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -c requirements-dev.lock cmake nanobind ninja scikit-build-core
	@touch $@

# Bytecode is not compiled in advance: most of what is installed is never imported. PySpark comes as
# source, mostly jars, of which pip makes a wheel to install it from: that need not be compressed.
$(VENV)/.demo: $(VENV)/.tools requirements-demo.lock
	$(PIP_INSTALL) --no-compile --config-settings=--build-option=--compression=stored \
	    -r requirements-demo.lock
	@touch $@

$(VENV)/.deps: $(VENV)/.demo requirements-dev.lock
	$(PIP_INSTALL) --no-compile -r requirements-dev.lock
	@touch $@

# Clear make's flags, or ninja would share the two jobs that are meant for pip.
$(VENV)/.sash: $(VENV)/.tools $(SOURCES)
	@tools/preflight.sh $(PYTHON)
	MAKEFLAGS= $(PIP_BUILD) --force-reinstall .
	@touch $@

# Tests start Spark a dozen times. Any version of the package makes the same archive.
$(VENV)/spark.jsa: $(VENV)/.deps tools/class_archive.py | $(VENV)/.sash
	$(PY) tools/class_archive.py $@

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

$(FLINK)/.done: benchmarks/flink.lock
	$(PYTHON) -m venv $(FLINK)
	$(FLINK)/bin/python -m pip --disable-pip-version-check install --quiet --no-compile -r benchmarks/flink.lock
	@touch $@
