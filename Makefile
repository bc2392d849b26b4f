# Each target sets up what it needs; all are idempotent and quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CORES ?= all
export PYTHONHASHSEED := 0
# One thread per job in numerical libraries: Snakemake does the parallel work.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: help run reproduce test test-slow faults check lint wheel bench peers audit scale findings report pictures docs clean

help: ## Show this help
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed (PYTHON=/path/to/python3 make ...)"; exit 1; }
	@echo "Installing the locked packages in $(VENV): some 2 minutes, 1.8 GB"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

run: $(READY) ## Run the default experiment: tables and figures in results/
	$(BIN)/snakemake --cores $(CORES)

reproduce: $(READY) ## Recompute the four papers' numbers and figures
	$(BIN)/snakemake --cores $(CORES) --configfile config/config.yaml config/paper.yaml -- reproduce

# One worker per core that this process may use; one more where tests wait for Slurm and browsers.
PYTEST := $(BIN)/python -m pytest -n
CORES_HERE := $$($(BIN)/python -c 'import os; print(len(os.sched_getaffinity(0)))')

test: $(READY) ## Run the quick tests (some 4 minutes on 2 cores)
	$(PYTEST) $(CORES_HERE)

test-slow: $(READY) ## Run those and the long ones, with more examples: every browser, Slurm and oracle test
	$(PYTEST) $$(($(CORES_HERE) + 1)) -m "not faults" --hypothesis-profile=slow --durations=40

FAULTS := $(if $(GROUP),tests/faults/test_$(GROUP).py,tests/faults)

faults: $(READY) ## Break runs and files in every way we know: kills, full disks, two at once (GROUP=kills)
	$(BIN)/python -m pytest -m "" --hypothesis-profile=slow $(FAULTS)
	$(if $(GROUP),,$(BIN)/python -m pytest -m faults tests/unit tests/oracle tests/workflow)

check: $(READY) ## All that must hold before a change lands: lint, docs, every test but the nightly ones
	$(MAKE) -j2 -Otarget lint docs
	$(MAKE) test-slow

lint: $(READY) ## Check style, types and the workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

wheel: $(READY) ## Build the package that pip installs, in dist/
	rm -rf build # what was deleted since would be in the wheel
	$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w dist .

bench: $(READY) ## Measure accountant and reading against their targets and alternatives
	$(BIN)/python benchmarks/speed.py

peers: $(READY) ## Compare with other programs and papers on the same work, in results/peers.csv
	$(BIN)/python benchmarks/peers.py

audit: $(READY) ## Search for a false end at random, ten minutes (SECONDS=3600 SEED=2)
	$(BIN)/python tests/oracle/audit.py --seconds $(or $(SECONDS),600) --seed $(or $(SEED),1)

scale: $(READY) ## Measure how cost grows with cells, users, cities and jobs (12 minutes on 2 cores)
	$(BIN)/python benchmarks/scale.py

findings: run ## Print the ratios of the main figure, and all mechanisms at the targets
	@$(BIN)/python -c 'import pandas as pd; from shuffledp.studies.utility import findings; \
	  print(findings(pd.read_csv("results/utility/comparison.csv")))'
	@$(BIN)/python -c 'import glob, pandas as pd; from shuffledp.pipeline.selection import at_targets; \
	  from shuffledp.studies.utility import target_findings; \
	  tables = [at_targets(pd.read_csv(path)) for path in sorted(glob.glob("results/utility/*.*.csv"))]; \
	  print("\n".join("\n" + target_findings(table) for table in tables if len(table)))'

report: run ## Write results/report.html: all figures and main tables, with captions
	$(BIN)/snakemake --report results/report.html

pictures: run docs ## Take the pictures of README and docs/ from a run (and from `make reproduce`, if it was made)
	$(BIN)/python docs/_site/pictures.py

docs: $(READY) ## Run the tutorials and write the documentation as a site, in site/
	$(BIN)/python -m nbconvert --log-level WARN --to notebook --execute --output-dir build docs/tutorial.ipynb docs/python.ipynb
	$(BIN)/python -m nbconvert --log-level WARN --to markdown --output-dir build/docs \
	  --CoalesceStreamsPreprocessor.enabled=True build/tutorial.ipynb build/python.ipynb
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean: ## Remove results, keep downloads
	rm -rf results
