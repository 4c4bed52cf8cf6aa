# Everything runs in .venv, and each target installs there what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The package index to install torch from, such as PyTorch's index of CPU builds. By default torch
# comes from pip's usual index, whose build for Linux may bring several gigabytes of CUDA packages.
TORCH_INDEX ?=
# The constraints pin torch to the version that the tests use. Only some of 23,000 modules are ever
# imported, and Python compiles those when it first does, so pip compiles none.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# Where this is set, as in some container images, each process compiles torch and all else that it
# imports again, which is most of the time that it takes to start.
unexport PYTHONDONTWRITEBYTECODE
# One torch thread per test process, because the processes already use all cores; nor do trials and
# torch.compile start processes of their own then. Ray's workers have a niceness of 15 by default,
# so that the test that waits for them would wait until all others are done.
TEST_PROCESSES ?= 2
TEST_ENV := LOKY_MAX_CPU_COUNT=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=1 RAY_worker_niceness=0

.PHONY: demo test test-browser lint bench docs dist clean

demo: $(VENV)/.cli
	$(BIN)/noisebound demo

test: $(VENV)/.test
	$(TEST_ENV) $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder

# Tests the HTML pages in Chromium. `make test` runs these too if it finds Chromium.
test-browser: $(VENV)/.test
	$(TEST_ENV) $(BIN)/python -m pytest -n $(TEST_PROCESSES) -m browser tests/browser

lint: $(VENV)/.lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	! git grep -nEif .ci/banned-phrases -- src docs README.md CHANGELOG.md

# By default glibc returns large buffers to the kernel after each call, so that page faults would
# decide the ratios. These settings make it keep the buffers, as the allocators of GPUs do.
KEEP_MEMORY := MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592

bench: $(VENV)/.cli
	$(KEEP_MEMORY) $(BIN)/python benchmarks/losses.py
	$(KEEP_MEMORY) $(BIN)/python benchmarks/loader.py
	$(BIN)/python benchmarks/corruption.py
	$(BIN)/python benchmarks/importing.py
	$(KEEP_MEMORY) $(BIN)/python benchmarks/training.py

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

# Builds a wheel and an sdist, and tries each in an empty environment.
dist: $(VENV)/.dist
	rm -rf dist
	$(BIN)/python -m build --quiet
	PYTHON=$(PYTHON) .ci/smoke dist/*.whl
	PYTHON=$(PYTHON) .ci/smoke dist/*.tar.gz

clean:
	rm -rf $(VENV) site dist

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# One stamp per extra: .venv/.cli says that noisebound[cli] is installed. Several extras are installed
# in one go by their names with commas: make .venv/.cli,lint,test
comma := ,
$(VENV)/.%: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(if $(TORCH_INDEX),$(INSTALL) --index-url '$(TORCH_INDEX)' torch)
	$(INSTALL) -e '.[$*]'
	touch $(addprefix $(VENV)/.,$(subst $(comma), ,$*))
