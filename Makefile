# Two commands: `make` runs the default benchmark and leaves results/report.html, `make test` checks everything.
# While you write, `make quick` checks what takes little time.

PYTHON ?= python3
CORES ?= all
VENV := .venv
READY := $(VENV)/.ready
RUN := env PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

.DEFAULT_GOAL := run
.PHONY: run setup test quick lint unit bench reference format pages docs dag clean clean-venv

# One line for each stage and a progress bar; all that Snakemake prints is in .snakemake/log. What ended the run comes last.
run: setup
	@rm -f .snakemake/failed.txt
	@$(RUN) snakemake --cores $(CORES) --rerun-incomplete --logger rich || { cat .snakemake/failed.txt; exit 1; }
	@echo "Open results/report.html"

setup: $(READY)

# Written last, so that an interrupted installation starts again. Modules are compiled by all cores, and not by pip, which
# takes one; ours too, for each job of a run is a process that imports them. torch has a file for a newer Python, which
# does not compile; it is passed over, as by pip.
$(READY): envs/requirements.txt envs/requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "patebench needs Python 3.11 or newer; run make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -r envs/requirements-dev.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(VENV)/bin/python -m compileall -qq -j 0 $(VENV)/lib workflow/patebench || true
	@touch $@

test: lint unit

# One more at a time than there are cores, as tests/conftest.py says. The tests of one file stay together, in the order
# of the files, which begins with those that run the workflow: they take longest.
PYTEST := OMP_NUM_THREADS=1 pytest -n auto --dist loadfile --no-loadscope-reorder

# Without types, the workflow run for real, and tests that are marked as slow: a minute or so of two cores.
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

# Measures the accounting, the teachers, the students, the workflow, how soon commands start and what large ensembles
# need, and writes results/reference/benchmarks-*.md.
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

# Runs all that results/reference keeps, or RUNS="folder …" of it; with KEEP=--keep puts what ran in its place,
# and with KEEP=--rebuild writes pages and tables of kept runs again from their records.
reference: setup
	$(RUN) python tests/reference.py --cores $(CORES) $(KEEP) $(RUNS)

format: setup
	$(RUN) ruff check --fix .
	$(RUN) ruff format .
	$(RUN) snakefmt Snakefile workflow/Snakefile workflow/rules

# Generated pages and figures: the configuration schema, the pages on configuration, commands and bounds, and the two
# figures drawn from the kept tables.
KEPT := results/reference
TABLES := $(foreach run,equal-epsilon equal-epsilon-private-knn equal-epsilon-teachers,$(KEPT)/$(run)/tables/equal-epsilon.csv)

pages: setup
	$(RUN) patebench config schema > config/config.schema.json
	$(RUN) patebench config schema --of rows > docs/reference/rows.schema.json
	$(RUN) patebench config page > docs/reference/configuration.md
	$(RUN) python -m patebench.cli.page > docs/reference/commands.md
	$(RUN) python -m patebench.cli.bounds_page > docs/reference/bounds.md
	$(RUN) python -m patebench.reporting.figures.headline $(KEPT)/headline.png config/published.csv $(TABLES)
	$(RUN) python -m patebench.reporting.figures.utility_figures $(KEPT)/equal-epsilon.png $(TABLES)

# The website in build/site; a broken link fails. What only the site needs is installed when it is first built.
docs: $(VENV)/.docs
	$(RUN) NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
	@echo "Open build/site/index.html, or run: $(VENV)/bin/mkdocs serve"

$(VENV)/.docs: envs/requirements-docs.txt $(READY)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r envs/requirements-docs.txt
	@touch $@

# The picture of the rules, without arrows that a longer path implies; needs graphviz.
dag: setup
	$(RUN) snakemake --rulegraph dot --configfile config/everything.yaml | tred | dot -Grankdir=LR -Tsvg > docs/images/dag.svg

# Labels that were released are write-protected, for drawing them again would cost their privacy again.
PROTECTED := -type f ! -perm -200 ! -perm -020 ! -perm -002
# The ledgers say what was released: without them nobody knows what another release would cost.
LEDGERS := ! -path results/ledger ! -path 'results/ledger/*'
RESULTS := find results -depth ! -path results ! -path results/reference ! -path 'results/reference/*' $(LEDGERS)

clean:
	rm -rf .snakemake
	@mkdir -p results
	$(RESULTS) ! -type d ! \( $(PROTECTED) \) -exec rm -f {} +
	$(RESULTS) -type d -empty -exec rmdir {} \;
	@$(RESULTS) $(PROTECTED) -exec echo "kept, for it is write-protected:" {} \;

clean-venv:
	rm -rf $(VENV)
