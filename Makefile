# `make demo` and `make test` do all the set-up they need, from a clean checkout.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test lint mutants clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py --out demo-run

# Two workers with a thread each: more threads than cores would wait for each other.
test: $(STAMP) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile
	OMP_NUM_THREADS=1 TRITON_INTERPRET=1 $(BIN)/python -m pytest -n 2 tests/interpreted

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Plants faults in a copy of the tree and sees whether the tests notice. Hours for a large SAMPLE; it goes on where it was.
SAMPLE ?= 200
mutants: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/mutate.py --sample $(SAMPLE)

# PyTorch comes first and by exact version, so that nothing else pulls in another build of it.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) demo-run
