"""Stages that only count start in under a second."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

PATEBENCH = Path(sys.executable).with_name("patebench")

#: What each torch-free stage imports before it does anything.
MODULES = {
    "data": "patebench.data.stage",
    "votes": "patebench.teachers.votes",
    "aggregate": "patebench.mechanisms.stage",
    "epsilon": "patebench.budgets.show, rich.table",
    "audit": "patebench.audit.show, patebench.audit.stage, rich.table",
    "collect": "patebench.reporting.collect",
    "table": "patebench.reporting.tables, pandas",
    "figure": "patebench.reporting.figures, pandas, matplotlib.figure, matplotlib.backends.backend_agg",
    "report": "patebench.reporting.report, jinja2",
    "config": "patebench.config",
}


def seconds(*command: str) -> float:
    """Processor time of the best of a few runs: what the wall clock would show on a machine that does nothing else."""
    best = float("inf")
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return best


@pytest.mark.parametrize("stage", MODULES)
def test_torch_free_stages_start_in_under_a_second(stage: str) -> None:
    assert seconds(sys.executable, "-c", f"import {MODULES[stage]}") < 1.0


def test_help_is_at_hand() -> None:
    assert seconds(str(PATEBENCH), "aggregate", "--help") < 0.5
