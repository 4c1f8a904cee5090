"""The same workflow on a real SLURM cluster, with the faults that clusters have. Skipped where there is none."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.workflow.conftest import Workflow
from tests.workflow.test_workflow import wait_until

pytestmark = pytest.mark.workflow


@pytest.fixture(scope="module", autouse=True)
def nodes() -> list[str]:
    """The names of the cluster's nodes that take jobs."""
    if not shutil.which("sinfo"):
        pytest.skip("SLURM is not installed")
    said = subprocess.run(["sinfo", "-h", "-N", "-p", "main", "-o", "%N %t"], capture_output=True, text=True)
    names = [line.split()[0] for line in said.stdout.splitlines() if line.split()[1] in ("idle", "mix", "alloc")]
    if len(names) < 2:
        pytest.skip("no SLURM cluster with a partition 'main' of at least two nodes answers")
    return names


class Cluster(Workflow):
    """A working copy whose jobs SLURM runs."""

    #: The profile is for any cluster; the rest is for one without accounting, on one machine.
    where = (
        *("--profile", "workflow/profiles/slurm", "--latency-wait", "5"),
        *("--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1"),
    )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        self.process = super().start(*arguments)
        return self.process

    def stop(self) -> None:
        """Kill snakemake and cancel what it left to SLURM."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        for number, _ in self.jobs("", "RUNNING,PENDING"):
            subprocess.run(["scancel", number], check=True)
        wait_until(lambda: not self.jobs("", "RUNNING,PENDING,COMPLETING"))

    def jobs(self, rule: str, state: str = "RUNNING") -> list[tuple[str, str]]:
        """(number, node) of this copy's SLURM jobs of a rule that are in a state."""
        asked = ["squeue", "-h", "-r", "-t", state, "-o", "%i|%N|%k|%Z"]
        lines = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
        found = [line.split("|") for line in lines]
        return [(number, node) for number, node, about, at in found if rule in about and at == str(self.folder)]


@pytest.fixture
def cluster(tmp_path: Path, tiny: dict[str, Any]) -> Iterator[Cluster]:
    tiny["experiments"]["tiny"]["ensembles"][0]["chunk"] = 2
    made = Cluster(tmp_path, tiny)
    yield made
    made.stop()


def test_a_job_and_a_node_die_and_the_tables_are_those_of_a_workstation(cluster: Cluster, finished: Workflow) -> None:
    process = cluster.start()
    wait_until(lambda: len(cluster.jobs("teach")) >= 3)
    (number, _), *_, (_, lost) = cluster.jobs("teach")
    subprocess.run(["scancel", "--signal=KILL", number], check=True)
    subprocess.run(["scontrol", "update", f"nodename={lost}", "state=down", "reason=test"], check=True)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert cluster.tables() == finished.tables()
    assert cluster.planned() == set()


def test_short_jobs_share_submissions(cluster: Cluster, finished: Workflow) -> None:
    """Dozens of jobs below the votes and all pages are a handful of submissions."""
    said = cluster.run()
    assert said.count("has been submitted with SLURM jobid") + said.count("array job") <= 12, said
    assert cluster.tables() == finished.tables()


def test_snakemake_is_killed_and_the_next_one_goes_on(cluster: Cluster, finished: Workflow) -> None:
    """What the manual says to do: cancel what still runs, and start again."""
    cluster.start()
    chunks = cluster.folder / "results"
    wait_until(lambda: any(chunks.glob("**/chunks/[0-9]*.npz")))
    cluster.stop()
    before = {chunk: chunk.stat().st_mtime_ns for chunk in chunks.glob("**/chunks/[0-9]*.npz")}
    cluster.run()
    assert cluster.tables() == finished.tables()
    assert any(chunk.stat().st_mtime_ns == time_ns for chunk, time_ns in before.items())
