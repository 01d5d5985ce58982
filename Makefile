# make demo    set everything up, run the main job on this machine's device
# make test    run the tests, but for those marked slow and rest
# make test-rest   run those marked rest: more cases of tables, wheels, longer fuzzing
# make bench   run the benchmarks
# make ledger  count and time the native code of common kernels, into benchmarks/ledger.csv
# make test-versions   run a sample of the tests on older versions of Triton (TRITONS)
# make docs    the site, in build/site
# make quick   the tests that need no toolchain, under three minutes on two cores
# make test-torches    check the C++ of the simulated device with the headers of torch's versions
#                      (TORCHES; empty: all of the table in docs/install.md, which it writes)
# make test-machines   test the wheel on Python 3.14, and import the one for arm64 under emulation
#                      (MACHINES; needs root and debootstrap where there is no such interpreter)
# make test-packages   run Helion's autotuner, and samples of libraries' own tests (SOURCES:
#                      NAME=FOLDER names a checkout where the repository cannot be reached)
# make test-hosts      run the simulator's tests of the host's instructions without AVX-512
# make check   linters, types (strict on the built package), and plain words
#
# make wheel   build an sdist, and from it the wheel, in dist/
#
# Everything lives in .venv.  PYTHON chooses the interpreter it is made with; TORCH and
# TORCH_BACKEND (cpu, xpu, cu130 ...; empty: what the configured index has) which torch is installed
# when .venv has none yet.

# each process that a test starts would otherwise compile all modules of the package again, 0.6 s
export PYTHONDONTWRITEBYTECODE :=
PYTHON ?= python3
TORCH ?= torch==2.13.0
TORCH_BACKEND ?= cpu
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
TRITONS ?= 3.8.0 3.7.1
SAMPLE := python/test/gemm $(addprefix python/test/backend/test_, clock.py compile.py launcher.py \
  options.py plugin.py versions.py) $(addprefix python/test/language/test_, atomics.py \
  cache_modifiers.py data_movement.py dot.py dot_scaled.py front_end_features.py reductions.py)

QUICK := $(addprefix python/test/, dialects intrinsics layout model plan project \
  $(addprefix lowering/, facts front layouts specialize spirv surfaces tiles test_rewrites.py test_stages.py))

# tests of what depends on the instructions of the host
ON_HOSTS := $(addprefix python/test/simulator/, rewrites/test_pinned_results.py \
  widen/test_simulated_kernels.py widen/test_simulated_matmul.py library)

# a build without CUDA, where torch's own index can be reached
torch_build = { $(BIN)/python -m pip install -q uv && $(BIN)/uv pip install -q \
  --python $(BIN)/python --torch-backend $(TORCH_BACKEND) $(TORCH) 2>/dev/null; }

.PHONY: demo test test-rest test-versions test-torches test-hosts test-machines test-packages \
  smoke quick bench ledger check docs wheel clean

demo: $(VENV)/ready
	$(BIN)/python -m examples.demo

test: $(VENV)/ready
	$(BIN)/python -m pytest -q -rs -n $(JOBS) --dist worksteal

test-rest: $(VENV)/ready
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m rest --rest

test-versions: $(VENV)/ready
	set -e; for version in $(TRITONS); do folder=$(CURDIR)/$(VENV)/triton-$$version; \
	  test -d $$folder || $(BIN)/python -m pip install -q --no-deps --target $$folder \
	    triton==$$version; \
	  PYTHONPATH=$$folder $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(SAMPLE); done

test-torches: $(VENV)/ready
	$(BIN)/python -m benchmarks.torch_headers $(or $(TORCHES),--all --record)

test-hosts: $(VENV)/ready
	TRITON_XE_HOST_CPU=x86-64-v3 $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(ON_HOSTS)

test-packages: $(VENV)/ready
	$(BIN)/python python/dev/packages.py $(SOURCES)

test-machines: $(VENV)/ready
	$(BIN)/python python/dev/other_machines.py $(MACHINES)

smoke: $(VENV)/ready
	$(BIN)/python -m pytest -q -m smoke

quick: $(VENV)/ready
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(QUICK) \
	  -m 'not intel_compiler and not intel_driver and not slow' \
	  -k 'not test_the_programs and not test_commands_run and not test_the_demo'

bench: $(VENV)/ready
	$(BIN)/python -m benchmarks

ledger: $(VENV)/ready
	$(BIN)/python -m benchmarks.ledger

check: $(VENV)/ready
	$(BIN)/ruff check
	$(BIN)/python -m mypy -p triton_xe -p benchmarks -p examples
	$(BIN)/python -m mypy python/dev
	$(BIN)/python python/dev/prose.py

docs: $(VENV)/ready
	$(BIN)/python -c 'import sphinx, myst_parser, pydata_sphinx_theme' 2>/dev/null || \
	  $(BIN)/python -m pip install -q -e '.[docs]'
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site

wheel: $(VENV)/ready
	rm -rf dist
	$(BIN)/python -m build --outdir dist .

# torch first: whatever build is installed stays, and nothing below pulls in another one
$(VENV)/ready: setup.py pyproject.toml runtime/native/launch.c runtime/native/threads.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'triton-xe needs Python 3.11 or later; set PYTHON=/path/to/python3.11'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo 'this Python cannot make virtual environments; install python3-venv'; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import torch' 2>/dev/null || $(if $(TORCH_BACKEND),$(torch_build) ||) \
	  $(BIN)/python -m pip install -q $(TORCH)
	$(BIN)/python -m pip install -q -e '.[test]'
	$(BIN)/python -m triton_xe.runtime.torch_xpu
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
