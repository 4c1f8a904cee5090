"""Stages that only count start in under a second; the machine may be busy, so the best of a few tries counts."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

PATEBENCH = Path(sys.executable).with_name("patebench")

#: What each torch-free stage imports before it does anything.
MODULES = {
    "data": "patebench.data.stage",
    "votes": "patebench.teachers.votes",
    "aggregate": "patebench.mechanisms.stage",
    "collect": "patebench.reporting.collect",
    "table": "patebench.reporting.tables, pandas",
    "figure": "patebench.reporting.figures, pandas, matplotlib.pyplot",
    "report": "patebench.reporting.report, jinja2",
    "config": "patebench.config",
}


def seconds(*command: str) -> float:
    best = float("inf")
    for _ in range(4):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        best = min(best, time.perf_counter() - started)
    return best


@pytest.mark.parametrize("stage", MODULES)
def test_torch_free_stages_start_in_under_a_second(stage: str) -> None:
    assert seconds(sys.executable, "-c", f"import {MODULES[stage]}") < 1.0


def test_help_is_at_hand() -> None:
    assert seconds(str(PATEBENCH), "aggregate", "--help") < 0.5
