"""Test paths with shell characters: every rule passes them on unchanged."""

import importlib.util
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.workflow.conftest import Make, Settings, environment

pytestmark = pytest.mark.workflow

#: Name with spaces, quotes, shell commands and wildcards, and a non-ASCII letter.
ODD = "odd $(touch pwned) `touch pwned` 'ü' \"q\" ; touch pwned & # * ?"

SINGLE = "'"


def test_odd_names_of_a_users_own_files_and_of_results_elsewhere_are_names(
    workflow: Make, tiny: Settings, tmp_path: Path
) -> None:
    folder, elsewhere = tmp_path / ODD, tmp_path / "else where"
    folder.mkdir()
    elsewhere.mkdir()
    rng = np.random.default_rng(0)
    for role in ("private", "public"):
        samples = {"x": rng.integers(0, 256, (200, 8, 8)).astype(np.uint8), "y": np.arange(200) % 2}
        np.savez(folder / f"{role} {ODD}.npz", **samples)
    np.save(folder / f"{ODD}.npy", np.arange(200) % 10)
    files = {role: str(folder / f"{role} {ODD}.npz") for role in ("private", "public")}
    tiny["datasets"] = {"mine": {"loader": "npz", **files, "class_names": ["$(touch pwned)", "it's `touch pwned`"]}}
    experiment = tiny["experiments"]["tiny"]
    experiment |= {"dataset": "mine", "mechanisms": {"gnmax": {"sigma": 2}}, "students": []}
    owners = {"strategy": "owners", "owners": str(folder / f"{ODD}.npy")}
    experiment["ensembles"] = [{"teachers": 10, "model": "logistic", "partition": owners}]
    del experiment["audit"], experiment["baseline"]
    run = workflow(tiny | {"results": f"results {ODD}", "data_root": f"data {ODD}"})
    run.run("--directory", str(elsewhere))
    assert (elsewhere / f"results {ODD}" / "report.html").exists()
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.skipif(not importlib.util.find_spec("snakemake_executor_plugin_slurm"), reason="no plugin for SLURM")
def test_odd_names_reach_slurm_as_names(workflow: Make, tiny: Settings, tmp_path: Path) -> None:
    """Replace SLURM by a command that accepts nothing, and check only its arguments."""
    bin, told = tmp_path / "bin", tmp_path / "told"
    bin.mkdir()
    (bin / "sbatch").write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> {told}\ncat >> {told}\nexit 1\n")
    for name in ("sacct", "squeue", "sinfo", "srun", "scancel", "sacctmgr"):
        (bin / name).write_text("#!/bin/sh\nexit 0\n")
    for each in bin.iterdir():
        each.chmod(0o755)
    elsewhere = tmp_path / ODD
    elsewhere.mkdir()
    run = workflow(tiny)
    said = subprocess.run(
        [*run.command("--profile", "workflow/profiles/slurm", "--config", f"results={ODD.replace(SINGLE, '')}"),
         "--directory", str(elsewhere), "--retries", "0", "--until", "data",
         "--slurm-init-seconds-before-status-checks", "1"],
        cwd=run.folder, env={**environment(), "PATH": f"{bin}{os.pathsep}/usr/bin:/bin"}, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert told.exists(), said.stdout + said.stderr
    assert not list(tmp_path.rglob("pwned"))
    assert "--wrap" not in told.read_text()


def test_what_snakemake_would_not_hand_on_as_it_is_is_refused(workflow: Make, tiny: Settings) -> None:
    """Refuse a single quote next to $ in a value of --config; in a file it is allowed (first test)."""
    run = workflow(tiny)
    status, said = run.attempt("--dry-run", "--config", f"results={ODD}")
    assert status != 0
    assert "contains a single quote and one of $" in said
    assert "Traceback" not in said
