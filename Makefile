# make train: play and learn, ten minutes on two CPU cores. make test: lint, types, tests.
PYTHON ?= python3
VENV ?= .venv
# On Linux plain "torch" is a CUDA build of several GB; a CPU build, or yours, can be named here.
TORCH ?= torch==2.13.0
# More flags for spyrl train, for example ARGS="--train.seed 1"
ARGS ?=

# Threads that wait give way to other work instead of spinning.
export GOMP_SPINCOUNT ?= 10000

BIN := $(VENV)/bin
RUN := outputs/first_run-$(shell date +%Y%m%d-%H%M%S)

.PHONY: train test slow install

train: install
	$(BIN)/spyrl train --config first_run --ckpt.output_dir $(RUN) $(ARGS)

test: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist loadfile

slow: install
	$(BIN)/python -m pytest -m slow

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@
