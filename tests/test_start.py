"""Stages that only count import neither torch nor pyplot; benchmarks/bench_start.py measures how soon they do."""

import json
import subprocess
import sys
from collections.abc import Mapping

from patebench.cli import COMMANDS
from tests import rules

#: Stages that train networks.
TRAINING = {rules.STAGES[rule] for rule in rules.ON_GPU}

#: Modules that stages import at start in addition to their own file.
MORE = {
    "audit": "patebench.audit.audit_text, rich.table",
    "calibrate": "patebench.calculator.show, rich.table",
    "epsilon": "patebench.calculator.show, rich.table",
    "report": "patebench.reporting.pages, patebench.reporting.figures, pandas, jinja2, matplotlib.backends.backend_agg",
    "config": "patebench.config",
}

#: What each torch-free stage imports before it does anything.
MODULES = {
    stage: ", ".join([f"patebench.stages.{stage}", *([MORE[stage]] if stage in MORE else [])])
    for stage in COMMANDS
    if stage not in TRAINING
}

#: What takes longer to import than such a stage to work.
HEAVY = {"torch", "torchvision", "matplotlib.pyplot", "snakemake"}

#: Runs pieces of code in turn, and says which of them failed or imported modules of HEAVY first.
SCRIPT = """
import json, sys
heavy, pieces = map(json.loads, sys.argv[1:])
found, known = {}, set()
for name, code in pieces.items():
    try:
        exec(code, {})
        found[name] = sorted((set(heavy) & set(sys.modules)) - known)
    except Exception as fault:
        found[name] = repr(fault)
    known |= set(sys.modules)
print(json.dumps({name: found[name] for name in found if found[name]}))
"""

HELP = """
from click.testing import CliRunner
from patebench.cli import cli
done = CliRunner().invoke(cli, [{stage!r}, "--help"], catch_exceptions=False)
assert done.exit_code == 0, done.output
"""


def heavy_imports(pieces: Mapping[str, str]) -> dict[str, object]:
    """Return the names of those `pieces` of code that fail or import modules of HEAVY, run in a fresh interpreter."""
    words = [json.dumps(sorted(HEAVY)), json.dumps(pieces)]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], check=True, capture_output=True, text=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_stages_that_count_import_no_torch() -> None:
    assert heavy_imports({stage: f"import {modules}" for stage, modules in MODULES.items()}) == {}


def test_help_imports_no_torch() -> None:
    assert heavy_imports({stage: HELP.format(stage=stage) for stage in COMMANDS}) == {}
