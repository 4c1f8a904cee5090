# `make` runs the default benchmark and writes results/report.html; `make test` runs all checks.
# `make quick` runs the fast checks.

PYTHON ?= python3
CORES ?= all
VENV := .venv
READY := $(VENV)/.ready
RUN := env PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

.DEFAULT_GOAL := run
.PHONY: run setup test quick lint unit entries bench reference format pages docs dag clean clean-venv

# Show one line per stage and a progress bar; Snakemake's full output is in .snakemake/log. Errors are shown last.
run: setup
	@rm -f .snakemake/failed.txt
	@$(RUN) snakemake --cores $(CORES) --rerun-incomplete --logger rich || { cat .snakemake/failed.txt; exit 1; }
	@echo "Open results/report.html"

setup: $(READY)

# Written last, so that an interrupted installation starts again. Modules are compiled with all cores, because pip uses
# only one; this includes our own modules, which each job of a run imports. A file of torch for a newer Python does not
# compile and is skipped, as by pip.
$(READY): envs/requirements.txt envs/requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "patebench needs Python 3.11 or newer; run make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -r envs/requirements-dev.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(VENV)/bin/python -m compileall -qq -j 0 $(VENV)/lib workflow/patebench || true
	@touch $@

test: lint unit

# One process more than there are cores (see tests/conftest.py). The tests of one file run in one process. Files that run
# the workflow come first, because they take longest.
PYTEST := OMP_NUM_THREADS=1 pytest -n auto --dist loadfile --no-loadscope-reorder

# Without type checks, real runs of the workflow and slow tests; about a minute on two cores.
quick: setup
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) $(PYTEST) -m "not workflow and not slow"

lint: setup
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) snakefmt --check Snakefile workflow/Snakefile workflow/rules
	$(RUN) snakemake --lint
	$(RUN) mypy

unit: setup
	$(RUN) $(PYTEST)

# Check the entries of the leaderboard, and compute their ε.
entries: setup
	$(RUN) patebench check_entry leaderboard/entries/*.json

# Measure the accounting, teachers, students, workflow, start of commands and large ensembles, and write
# results/reference/benchmarks-*.md.
bench: setup
	$(RUN) OMP_NUM_THREADS=1 python benchmarks/bench_accounting.py
	$(RUN) python benchmarks/bench_teachers.py
	$(RUN) OMP_NUM_THREADS=1 python benchmarks/bench_students.py
	$(RUN) OMP_NUM_THREADS=1 python benchmarks/bench_petdl.py
	$(RUN) python benchmarks/bench_dpsgd.py --write
	$(RUN) python benchmarks/bench_workflow.py
	$(RUN) python benchmarks/bench_start.py
	$(RUN) python benchmarks/bench_scale.py
	$(RUN) python benchmarks/bench_records.py

# Run everything in results/reference, or only RUNS="folder …". KEEP=--keep replaces the kept results by the new ones;
# KEEP=--rebuild writes the pages and tables of kept runs again from their records.
reference: setup
	$(RUN) python tests/reference.py --cores $(CORES) $(KEEP) $(RUNS)

format: setup
	$(RUN) ruff check --fix .
	$(RUN) ruff format .
	$(RUN) snakefmt Snakefile workflow/Snakefile workflow/rules

# Write the generated pages and figures: the configuration schema, the pages on configuration, commands and bounds, and
# four figures from the kept tables.
KEPT := results/reference
TABLES := $(foreach run,equal-epsilon equal-epsilon-private-knn equal-epsilon-teachers,$(KEPT)/$(run)/tables/equal-epsilon.csv)

pages: setup
	$(RUN) patebench config schema > config/config.schema.json
	$(RUN) patebench config schema --of rows > docs/reference/rows.schema.json
	$(RUN) patebench config schema --of entry > leaderboard/entry.schema.json
	$(RUN) patebench config page > docs/reference/configuration.md
	$(RUN) python -m patebench.cli.page > docs/reference/commands.md
	$(RUN) python -m patebench.cli.bounds_page > docs/reference/bounds.md
	$(RUN) python -m patebench.reporting.figures.headline $(KEPT)/equal-epsilon.png $(TABLES) \
		--readme $(KEPT)/headline.png config/published.csv
	$(RUN) python -m patebench.reporting.figures.headline $(KEPT)/one-table.png \
		$(foreach run,one-table one-table-regression one-table-epsilons one-table-epsilons-cifar10-jpeg,$(KEPT)/$(run)/tables/equal-epsilon.csv)
	$(RUN) python -m patebench.reporting.figures.headline $(KEPT)/one-table-labels.png \
		$(KEPT)/one-table-labels/tables/equal-epsilon.csv

# Build the website in build/site; a broken link is an error. The packages it needs are installed at the first build.
docs: $(VENV)/.docs
	$(RUN) NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
	@echo "Open build/site/index.html, or run: $(VENV)/bin/mkdocs serve"

$(VENV)/.docs: envs/requirements-docs.txt $(READY)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r envs/requirements-docs.txt
	@touch $@

# Draw the graph of the rules, without arrows that a longer path implies; needs graphviz.
dag: setup
	$(RUN) snakemake --rulegraph dot --configfile config/everything.yaml config/papers/prom-pate-2023.yaml | tred | dot -Grankdir=LR -Tsvg > docs/images/dag.svg

# Released labels are write-protected, because drawing them again would spend their privacy again.
PROTECTED := -type f ! -perm -200 ! -perm -020 ! -perm -002
# Ledgers are kept: without them, the total ε of another release is unknown.
LEDGERS := ! -path results/ledger ! -path 'results/ledger/*'
RESULTS := find results -depth ! -path results ! -path results/reference ! -path 'results/reference/*' $(LEDGERS)

clean:
	rm -rf .snakemake
	@mkdir -p results
	$(RESULTS) ! -type d ! \( $(PROTECTED) \) -exec rm -f {} +
	$(RESULTS) -type d -empty -exec rmdir {} \;
	@$(RESULTS) $(PROTECTED) -exec echo "kept, because it is write-protected:" {} \;

clean-venv:
	rm -rf $(VENV)
