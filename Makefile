# Two commands: `make demo` and `make test`. Each sets up .venv once and skips that the next time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PROCESSES ?= 2
# threads that spin make everything slower on a busy machine
export OMP_WAIT_POLICY ?= passive

.PHONY: demo test test-fast page test-slow test-versions lint check-types coverage clean
.DELETE_ON_ERROR:

demo: $(STAMPS)/demo
	$(BIN)/tickets demo $(DEMO)

# two processes of one thread each, whole files to each: half the time of one process on two cores
test: $(STAMPS)/test lint check-types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not gpu" -n $(PROCESSES) --dist loadfile $(ARGS)

# what one runs after every edit, at most 90 s: unit and property tests and those of security, but for the files that take longest
# (`--durations` says which); what another folder or a file of this list covers waits for `make test`
LONG := security/attack_hostile_files security/models security/working_directory property/attack_budget \
	property/attack_reference property/attack_resume property/predict_resume property/synonym_table unit/cache \
	unit/classifier_place unit/data_corpus unit/deploy_export unit/jobs unit/masks unit/registration unit/report_claims \
	unit/reproduce_job unit/reproduce_page unit/reproduce_runner unit/robustt unit/search unit/search_magnitude \
	unit/search_orticket unit/search_slim unit/train_checkpoint unit/train_engines unit/train_half unit/train_late \
	unit/train_writer unit/victims
test-fast: $(STAMPS)/test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not gpu" -n $(PROCESSES) --dist loadfile \
		tests/unit tests/property tests/security $(foreach file,$(LONG),--ignore=tests/$(subst /,/test_,$(file)).py) $(ARGS)

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
