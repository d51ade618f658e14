# Two commands: `make demo` and `make test`. Each sets up .venv once and skips that the next time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PROCESSES ?= 2
# threads that spin make everything slower on a busy machine
export OMP_WAIT_POLICY ?= passive

.PHONY: demo test page test-slow test-versions lint check-types coverage clean
.DELETE_ON_ERROR:

demo: $(STAMPS)/demo
	$(BIN)/tickets demo $(DEMO)

# two processes of one thread each, whole files to each: half the time of one process on two cores
test: $(STAMPS)/test lint check-types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not gpu" -n $(PROCESSES) --dist loadfile $(ARGS)

# every result in results/ as one file, which loads nothing
page: $(STAMPS)/demo
	$(BIN)/tickets reproduce --page results/index.html

# the same tests under a tracer, which makes them slower
coverage: $(STAMPS)/test
	$(BIN)/python -m pytest -m "not slow and not gpu" --cov=robust_tickets --cov-report=term:skip-covered $(ARGS)

# the longer proofs, and the tests of the benchmarks with the fixtures of tests/
test-slow: $(STAMPS)/test
	$(BIN)/python -m pytest -m "slow" $(ARGS)
	PYTHONPATH=tests $(BIN)/python -m pytest -p conftest benchmarks $(ARGS)

# a sample of the tests with the oldest, the pinned and the newest versions that pyproject.toml allows; then the wheel, outside the clone
VERSIONS ?= lowest pinned newest wheel
test-versions:
	PYTHON=$(PYTHON) .ci/versions $(VERSIONS)

lint: $(STAMPS)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

check-types: $(STAMPS)/test
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(STAMPS)/demo: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[demo]"
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/test: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[demo,hub,onnx,test]"
	@mkdir -p $(STAMPS) && touch $@ $(STAMPS)/demo

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
