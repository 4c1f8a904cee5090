"""Test the workflow on a real SLURM cluster with failing nodes and jobs; skipped if there is none."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.workflow.conftest import PATIENCE, Workflow

pytestmark = pytest.mark.workflow

#: Options of a run that ends with the votes.
UNTIL = ("--until", "join_votes")


@pytest.fixture(scope="module", autouse=True)
def nodes() -> list[str]:
    """Return the names of the cluster's nodes that take jobs."""
    if not shutil.which("sinfo"):
        pytest.skip("SLURM is not installed")
    said = subprocess.run(["sinfo", "-h", "-N", "-p", "main", "-o", "%N %t"], capture_output=True, text=True)
    names = [line.split()[0] for line in said.stdout.splitlines() if line.split()[1] in ("idle", "mix", "alloc")]
    if len(names) < 2:
        pytest.skip("no SLURM cluster with a partition 'main' of at least two nodes answers")
    # Snakemake removes SLURM_CONF from the environment of a job, which then reads /etc/slurm/slurm.conf.
    bare = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    in_jobs = subprocess.run(["sinfo", "-h", "-N", "-p", "main", "-o", "%N"], capture_output=True, text=True, env=bare)
    assert in_jobs.returncode == 0, f"jobs reach no cluster by /etc/slurm/slurm.conf: {in_jobs.stderr}"
    return names


class Cluster(Workflow):
    """Working copy whose jobs SLURM runs."""

    #: The profile is for any cluster; the rest is for one without accounting, on one machine.
    where = (
        *("--profile", "workflow/profiles/slurm", "--latency-wait", "5"),
        *("--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1"),
    )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        self.deadline = time.monotonic() + PATIENCE
        self.process = super().start(*arguments)
        return self.process

    def stop(self) -> None:
        """Kill Snakemake and cancel its SLURM jobs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.stdout and not self.process.stdout.closed:
            self.process.communicate()
        for number, _ in self.jobs("", "RUNNING,PENDING"):
            subprocess.run(["scancel", number], check=True)
        self.wait(lambda: not self.jobs("", "RUNNING,PENDING,COMPLETING"), "its jobs are cancelled")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for an event; fail with Snakemake's output if it ends before."""
        while not condition():
            if self.process.returncode is None and self.process.poll() is not None:
                raise AssertionError(f"snakemake ended before {what}:\n{self.process.communicate()[0]}")
            asked = subprocess.run(["squeue"], capture_output=True, text=True).stdout
            assert time.monotonic() < self.deadline, f"waited {PATIENCE} s until {what}; the queue:\n{asked}"
            time.sleep(0.2)

    def finish(self) -> str:
        """Wait for the end while SLURM restarts the jobs of a lost node at once; return the output."""
        over = threading.Event()
        helper = threading.Thread(target=self._release, args=(over,))
        helper.start()
        try:
            status, said = self.end(self.process)
        finally:
            over.set()
            helper.join()
        assert status == 0, said
        return said

    def _release(self, over: threading.Event) -> None:
        """Release held jobs, and shorten SLURM's wait of two minutes before a restart."""
        while not over.wait(1):
            for number, _ in self.jobs("", "PENDING"):
                for order in (["update", f"jobid={number}", "starttime=now"], ["release", number]):
                    subprocess.run(["scontrol", *order], capture_output=True)

    def jobs(self, rule: str, state: str = "RUNNING") -> list[tuple[str, str]]:
        """Return (number, node) of this copy's SLURM jobs of a rule in a state."""
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


@pytest.fixture
def lose(nodes: list[str]) -> Iterator[Callable[[str], None]]:
    """Remove a node and its jobs from the cluster until the end of the test."""
    gone: list[str] = []

    def state(node: str, *states: str) -> None:
        for each in states:
            subprocess.run(["scontrol", "update", f"nodename={node}", f"state={each}", "reason=test"], check=True)

    def take(node: str) -> None:
        gone.append(node)
        state(node, "down", "drain")

    yield take
    for node in gone:
        state(node, "resume")


def test_a_job_and_a_node_die_and_all_pages_are_those_of_a_workstation(
    cluster: Cluster, finished: Workflow, lose: Callable[[str], None]
) -> None:
    """Expect shared submissions of short jobs: 16 for 20 jobs without failures."""
    cluster.start()
    cluster.wait(lambda: len(cluster.jobs("train_teachers")) >= 3, "three jobs train teachers")
    (number, _), *_, (_, lost) = cluster.jobs("train_teachers")
    subprocess.run(["scancel", "--signal=KILL", number], check=True)
    lose(lost)
    cluster.wait(lambda: not any(node == lost for _, node in cluster.jobs("")), f"{lost} has lost its jobs")
    said = cluster.finish()
    assert said.count("has been submitted with SLURM jobid") <= 19, said
    assert cluster.tables() == finished.tables()
    assert cluster.planned() == set()


#: Two jobs of one group that take a few seconds; with a third one that needs both, or without.
PAIR = """
rule all:
    input: {inputs}
rule work:
    output: "{{number}}.out"
    group: "pair"
    resources: mem_mb=100, runtime=5
    shell: "date +%s.%N > {{output}}; sleep 5; date +%s.%N >> {{output}}"
rule join:
    input: "0.out", "1.out"
    output: "joined"
    group: "pair"
    resources: mem_mb=100, runtime=5
    shell: "touch {{output}}"
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core runs one job at a time")
@pytest.mark.parametrize(
    ("inputs", "options", "together"),
    [('"joined"', [], True), ('"0.out", "1.out"', ["--group-components", "pair=2"], False)],
    ids=["connected", "independent"],
)
def test_jobs_of_a_submission_run_side_by_side_only_if_they_are_connected(
    inputs: str, options: list[str], together: bool, tmp_path: Path
) -> None:
    """Check the reason why the profile needs no `group-components`; it should have some if this fails."""
    (tmp_path / "Snakefile").write_text(PAIR.format(inputs=inputs))
    profile = str(Path(__file__).parents[2] / "workflow" / "profiles" / "slurm")
    where = ["--profile", profile, *Cluster.where[2:]]
    command = [sys.executable, "-m", "snakemake", *where, *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("has been submitted with SLURM jobid") == 1
    (start, end), (other_start, other_end) = (
        [float(line) for line in (tmp_path / f"{number}.out").read_text().split()] for number in range(2)
    )
    assert (start < other_end and other_start < end) == together


def test_snakemake_is_killed_and_the_next_one_goes_on(cluster: Cluster, finished: Workflow) -> None:
    """Follow the manual: cancel the running jobs, and start again."""
    cluster.start(*UNTIL)
    cluster.wait(lambda: bool(cluster.jobs("train_teachers", "COMPLETED")), "a chunk of teachers is done")
    cluster.stop()
    results = cluster.folder / "results"
    before = {chunk: chunk.stat().st_mtime_ns for chunk in results.glob("**/chunks/[0-9]*.npz")}
    assert before, "a chunk that was done is gone"
    cluster.run("--unlock")
    cluster.run(*UNTIL)
    assert cluster.votes() == finished.votes()
    assert any(chunk.stat().st_mtime_ns == time_ns for chunk, time_ns in before.items())
