# `make demo` and `make test` do all the set-up they need, from a clean checkout.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test lint docs dist try-dist mutants drill lock clean

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

# The site, in build/site, made without the network; a broken link fails. What the theme says of its successor
# with every build is in decision 43, and is switched off here.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "the site is in build/site: open build/site/index.html"

# Wheel and source archive, in dist; without build isolation, which would fetch what no lock names.
dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m hatchling build

# Builds both, installs the wheel into an environment of its own, without extras, and tries it there.
try-dist: $(STAMP)
	$(BIN)/python tests/distribution/fresh.py

# Plants faults in a copy of the tree and sees whether the tests notice. Hours for a large SAMPLE; it goes on where it was.
SAMPLE ?= 200
mutants: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/mutate.py --sample $(SAMPLE)

# Damages files, kills trainings and starts two at once; some six minutes on two cores that are free. It goes on where it was.
CASES ?= 10000
drill: $(STAMP)
	$(BIN)/python tests/drill/drill.py --cases $(CASES) --write

# Everything but PyTorch comes from the lock, with hashes. PyTorch comes by exact version from wherever pip finds it: builds for
# a CPU and for each CUDA have hashes of their own. What it needs of the lock is then there; a CUDA build brings its libraries.
$(STAMP): pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	touch $(STAMP)

# Renews requirements.lock: the newest versions that fit together, for all Pythons and systems, without PyTorch and CUDA.
lock:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --quiet --upgrade --extra dev --constraint constraints.txt --universal \
	  --python-version 3.11 --generate-hashes --no-annotate --no-header --output-file $(VENV)/lock.txt
	{ echo "# Written by \`make lock\`. What \`make\` installs beside PyTorch, whose version is in constraints.txt."; \
	  awk '/^[^ ]/ { kept = !/^(torch=|nvidia-|cuda-)/ } kept' $(VENV)/lock.txt; } > requirements.lock

clean:
	rm -rf $(VENV) demo-run build/site dist
