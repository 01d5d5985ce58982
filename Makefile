# make demo    set everything up, run the main job on this machine's device
# make test    run the tests
# make bench   run the benchmarks
# make check   linters, and strict types on the built package
#
# Everything lives in .venv.  PYTHON chooses the interpreter it is made with; TORCH what is
# installed when .venv has no torch yet (add an index option there to choose a build of it).

PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: demo test smoke bench check clean

demo: $(VENV)/ready
	$(BIN)/python -m examples.demo

test: $(VENV)/ready
	$(BIN)/python -m pytest -q -rs -n $(JOBS) --dist worksteal

smoke: $(VENV)/ready
	$(BIN)/python -m pytest -q -m smoke

bench: $(VENV)/ready
	$(BIN)/python -m benchmarks

check: $(VENV)/ready
	$(BIN)/ruff check
	$(BIN)/python -m triton_xe.tools.check_types

# torch first: whatever build is installed stays, and nothing below pulls in another one
$(VENV)/ready: setup.py pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'triton-xe needs Python 3.11 or later; set PYTHON=/path/to/python3.11'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo 'this Python cannot make virtual environments; install python3-venv'; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install -q $(TORCH)
	$(BIN)/python -m pip install -q -e '.[test]'
	$(BIN)/python -m triton_xe.runtime.torch_xpu
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
