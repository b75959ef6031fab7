# Needs Python 3.11 or newer and make; everything else goes into .venv.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
PEERS ?= $(BIN)# an environment that also has the peers, for the long tests that compare with them
PYTEST := python -m pytest -n auto --dist worksteal
unexport PYTHONDONTWRITEBYTECODE# or every worker and every process that a test starts would compile all it imports

.DEFAULT_GOAL := help
.PHONY: help install fly test check bench gallery docs verify clean

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## put Samara and all that its tests need into .venv

$(STAMP): EXTRA := test
.venv/flying: EXTRA := view
$(STAMP) .venv/flying: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Samara needs Python 3.11 or newer; $(PYTHON) is %d.%d: try make PYTHON=python3.11" % sys.version_info[:2])'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[$(EXTRA)]"
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests/' .venv/lib || true  # on every core; pip would use one
	@touch $@

fly: .venv/flying ## install Samara and fly the first mission
	$(BIN)/samara fly

test: install ## the tests a change must pass
	$(BIN)/$(PYTEST) -m "not long"

check: install ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install bench/.venv/installed ## measure how fast a step is, beside the peers; UPDATE=1 keeps the result
	$(if $(GYM_PYBULLET_DRONES),bench/.venv/bin/python -m pip install --quiet --requirement bench/gym_pybullet_drones.txt)
	$(BIN)/python bench/run.py $(if $(UPDATE),--update) $(if $(GYM_PYBULLET_DRONES),--gym-pybullet-drones $(GYM_PYBULLET_DRONES))

bench/.venv/installed: bench/peers.txt
	@test -x bench/.venv/bin/python || $(PYTHON) -m venv bench/.venv
	bench/.venv/bin/python -m pip install --quiet --requirement bench/peers.txt
	@touch $@

gallery: install ## draw every picture, write every measured figure and run every lesson of the documentation again
	PYTHONPATH=docs $(BIN)/python -m figures.gallery docs/images
	PYTHONPATH=docs $(BIN)/python -m figures.models docs/explanation/models.md
	PYTHONPATH=docs $(BIN)/python -m tools.bench_figures
	PYTHONPATH=docs $(BIN)/python -m tools.reference
	PYTHONPATH=docs $(BIN)/python -m tools.run_lessons

docs: export NO_MKDOCS_2_WARNING = 1
docs: .venv/docs ## build the documentation site: out/site/index.html
	$(BIN)/mkdocs build --strict --quiet

.venv/docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	@touch $@

verify: check ## the long tests, lint and types
	$(PEERS)/$(PYTEST) -m long

clean: ## remove what was built here, .venv included
	rm -rf .venv .venv-peers bench/.venv build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
