# Everything runs in .venv, which each target builds as far as it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The constraint keeps pip from resolving torch to several gigabytes of CUDA packages.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Two cores: one torch thread for each test process, or they fight.
TEST_ENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-browser lint bench docs dist clean

demo: $(VENV)/.install
	$(BIN)/noisebound demo

test: $(VENV)/.test
	$(TEST_ENV) $(BIN)/python -m pytest -n 2

# The pages in a real Chromium; `make test` runs these too, where it finds one.
test-browser: $(VENV)/.test
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 -m browser tests/browser

lint: $(VENV)/.lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# glibc would hand the large buffers back to the kernel after each call, and page faults would
# decide the ratios; this makes it keep them, as GPUs' allocators do.
KEEP_MEMORY := MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592

bench: $(VENV)/.install
	$(KEEP_MEMORY) $(BIN)/python benchmarks/losses.py
	$(KEEP_MEMORY) $(BIN)/python benchmarks/loader.py
	$(BIN)/python benchmarks/corruption.py
	$(BIN)/python benchmarks/importing.py
	$(BIN)/python benchmarks/sweep.py
	$(KEEP_MEMORY) $(BIN)/python benchmarks/training.py

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

# A wheel and an sdist, each tried out in an empty environment.
dist: $(VENV)/.dist
	rm -rf dist
	$(BIN)/python -m build --quiet
	PYTHON=$(PYTHON) .ci/smoke dist/*.whl
	PYTHON=$(PYTHON) .ci/smoke dist/*.tar.gz

clean:
	rm -rf $(VENV) site dist

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# One stamp for the package, and one an extra: .venv/.test says that noisebound[test] is installed.
$(VENV)/.install: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e .
	touch $@

$(VENV)/.%: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[$*]'
	touch $@
