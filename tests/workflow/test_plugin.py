"""Test a mechanism of another package, the template in the documentation: it is available in every stage."""

import csv
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.packages import install
from tests.workflow.conftest import REPOSITORY, Make, Settings

from patebench.core.files import read_json

TARGETS = ("tables/bounds.csv", "tables/noisy-accuracy.csv", "tables/audit.csv", "figures/audit.png")

#: Runs the jobs of the given targets one after another in a process that has the package on its path from the start.
IN_ONE_PROCESS = f"""
import sys
from pathlib import Path
sys.path.append({str(REPOSITORY)!r})
from tests import dry_run
dry_run.make(Path("test.yaml").resolve(), Path.cwd(), "--", *sys.argv[1:])
"""


@pytest.mark.workflow
def test_it_appears_in_the_account_the_audit_tables_and_figures(
    workflow: Make, tiny: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (REPOSITORY / "docs" / "template" / "src" / "patebench_coin.py").read_text()
    folder = install(tmp_path, "[patebench.mechanisms]\ncoin = patebench_coin:Coin\n", patebench_coin=source)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    experiment = tiny["experiments"]["tiny"]
    experiment |= {"mechanisms": {"coin": {"chance": 0.5}}, "students": [], "audit": {"runs": 2000}}
    del experiment["baseline"]
    run = workflow(tiny)
    run.command()  # writes the configuration
    targets = [f"results/{target}" for target in TARGETS]
    words = [sys.executable, "-c", IN_ONE_PROCESS, *targets]
    done = subprocess.run(words, cwd=run.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    epsilon = math.log((0.5 + 0.05) / 0.05)  # of one query: a class is drawn with .05, the plurality with .55
    (finding, _) = read_json(run.find("**/coin/chance-0.5/audit.json"), "audit")["findings"]
    assert finding["bounds"][0]["epsilon"] == pytest.approx(epsilon, rel=1e-3)
    for table in ("bounds", "noisy-accuracy", "audit"):
        rows = csv.DictReader((run.folder / "results" / "tables" / f"{table}.csv").read_text().splitlines())
        assert any(row["mechanism"] == "coin" and row["noise"] == "chance-0.5" for row in rows), table
    assert (run.folder / "results" / "figures" / "audit.png").stat().st_size > 10_000
