"""Measure the overhead of the workflow: building the DAG, an up-to-date run, starting a stage or a cluster job.

Run with `make bench`. Times are processor times, user and system, so that a busy machine changes them little. Prints a
table and writes it as Markdown; the exit status is 1 if a target was missed. If `sinfo` finds a SLURM cluster, the wall
time per short job is measured too.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import yaml
from comparison import Row, finish, least, limited, parse_out, processes_clock, written

import patebench
from patebench.accounting.votes import Votes
from patebench.config import load
from patebench.mechanisms.base import make_mechanism

REPOSITORY = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

#: Stages without training, whose start should be unnoticeable; each is run again on tiny data, as in its log.
STAGES = ("split", "partition", "join_votes", "aggregate", "account", "collect", "tables")


class Copy:
    """A working copy of the workflow with one configuration."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        shutil.copy(REPOSITORY / "Snakefile", folder)
        for part in ("config", "report", "envs", "profiles", "workflow/rules", "workflow/profiles"):
            shutil.copytree(REPOSITORY / part, folder / part)
        (folder / "bench.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))

    def snakemake(self, *words: str) -> str:
        command = [BIN / "snakemake", *words, "--configfile", "bench.yaml"]
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise SystemExit(f"snakemake {' '.join(words)} failed:\n{done.stdout}")
        return done.stdout

    def pretend(self) -> None:
        """Create empty files for all outputs of a finished run, and Snakemake's records of them."""
        planned = re.findall(r"^ +output: (.*)$", self.snakemake("--cores", "1", "--dry-run"), re.MULTILINE)
        files = [re.sub(r" \(.*?\)$", "", file) for line in planned for file in line.split(", ")]
        for file in files:
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / file).touch()
        self.snakemake("--cores", "1", "--touch", "--quiet", "all")


def fanned_out() -> dict[str, Any]:
    """Return a configuration of about 5,000 jobs: 10 seeds, 3 ensembles, 80 noise settings."""
    experiment = {
        "dataset": "digits",
        "pool": 400,
        "ensembles": [{"teachers": [10, 25, 50], "model": "logistic", "recipe": "modern", "chunk": 5}],
        "mechanisms": {"lnmax": {"gamma": [(i + 1) / 100 for i in range(80)]}},
        "accounting": {"delta": 1e-5, "queries": [100, 400]},
    }
    return {"seeds": list(range(10)), "experiments": {"fan": experiment}}


def bench_dag(folder: Path) -> list[Row]:
    copy = Copy(folder / "fan", fanned_out())
    said: list[str] = []
    dry_run = partial(copy.snakemake, "--dry-run", "--quiet", "rules", "--cores", "1")
    seconds = least(lambda: said.append(dry_run()), 1, processes_clock)
    jobs = next(line.split()[1] for line in said[0].splitlines() if line.startswith("total"))
    return [limited(f"DAG of {int(jobs):,} jobs: built, and listed by a dry run", seconds, 30)]


def bench_nothing(folder: Path) -> list[Row]:
    copy = Copy(folder / "default", load(REPOSITORY / "config" / "config.yaml"))
    copy.pretend()
    said: list[str] = []
    seconds = least(lambda: said.append(copy.snakemake("--cores", "1")), 1, processes_clock)
    if "Nothing to be done" not in said[0]:
        raise SystemExit(f"a run that has nothing to do did something:\n{said[0]}")
    files = len([path for path in (copy.folder / "results").rglob("*") if path.is_file()])
    return [limited(f"the default run again, finished ({files} files): nothing to do", seconds, 5)]


def tiny() -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load((REPOSITORY / "tests" / "workflow" / "tiny.yaml").read_text())
    settings["experiments"]["tiny"]["students"] = []
    return settings


def bench_stages(folder: Path) -> list[Row]:
    """Measure stages on tiny data, run as in their logs: nearly all of the time is overhead."""
    copy = Copy(folder / "tiny", tiny())
    copy.snakemake("results/tables/bounds.csv", "--cores", "1", "--quiet", "all")
    rows = []
    for stage in STAGES:
        log = min((copy.folder / "results" / "logs" / stage).rglob("*.log"))
        words = shlex.split(log.read_text().splitlines()[0].split(": ", 1)[1])
        command = [BIN / "patebench", *words]
        seconds = least(partial(subprocess.run, command, cwd=copy.folder, check=True), 3, processes_clock)
        rows.append(limited(f"`patebench {stage}`, start to end, tiny data", seconds, 1))
    return rows


def bench_aggregation() -> list[Row]:
    """Measure the release of labels beside a plain loop that draws noise for one query at a time."""
    rng = np.random.default_rng(0)
    votes = Votes.of(rng.integers(0, 10, (250, 9000)), 10)
    rows = []
    for name, parameters in (("lnmax", {"gamma": 0.05}), ("gnmax", {"sigma": 40.0})):
        mechanism = make_mechanism(name, parameters)
        fast = least(lambda m=mechanism: m.release(votes, np.random.default_rng(0)), 5, time.process_time)
        draw = {"lnmax": lambda r: r.laplace(scale=20.0, size=10), "gnmax": lambda r: r.normal(scale=40.0, size=10)}
        plain = partial(lambda d: [int(np.argmax(row + d(rng))) for row in votes.counts], draw[name])
        slow = least(plain, 1, time.process_time)
        what, ratio = f"labels of 9,000 queries, {name}", f"{slow / fast:.0f}×"
        rows.append(Row(what, written(fast), written(slow), ratio, "≥ 5×", slow >= 5 * fast))
    return rows


def bench_audit() -> list[Row]:
    audit = partial(patebench.audit, "gnmax", sigma=5.0, teachers=250, classes=10, delta=1e-5, queries=[400])
    seconds = least(audit, 1, time.process_time)
    what = "audit of gnmax, n = 250, 1 and 400 queries, 100,000 runs on each data set"
    return [limited(what, seconds, 3)]


def bench_cluster(folder: Path) -> list[Row]:
    """Measure the wall time per short job, from the first submission to the end of the last job, in groups or alone."""
    settings = tiny()
    settings["experiments"]["tiny"]["mechanisms"] = {"lnmax": {"gamma": [0.1 * (i + 1) for i in range(10)]}}
    taken = {}
    for components in (10, 1):
        copy = Copy(folder / f"slurm-{components}", settings)
        copy.snakemake("--cores", "2", "--quiet", "all", "--until", "join_votes")
        profile = ["--profile", "workflow/profiles/slurm", "--latency-wait", "5", "--slurm-status-command", "squeue"]
        often = ["--slurm-init-seconds-before-status-checks", "1", "--groups", "aggregate=numbers", "account=numbers"]
        often += ["--group-components", f"numbers={components}"]
        started = time.perf_counter()
        copy.snakemake(*profile, *often, "--until", "account", "aggregate")
        taken[components] = (time.perf_counter() - started) / 20
    ratio = f"{taken[1] / taken[10]:.1f}×"
    what = "SLURM, wall time per short job (20): ten to a submission, beside one each"
    return [Row(what, written(taken[10]), written(taken[1]), ratio, "", True)]


def main() -> int:
    out = parse_out(__doc__, "benchmarks-workflow.md")
    with tempfile.TemporaryDirectory(prefix="patebench-bench-") as name:
        folder = Path(name)
        rows = [*bench_dag(folder), *bench_nothing(folder), *bench_stages(folder)]
        rows += bench_aggregation()
        rows += bench_audit()
        if shutil.which("sinfo") and not subprocess.run(["sinfo"], capture_output=True).returncode:
            rows += bench_cluster(folder)
    about = (
        f"Processor time on {platform.machine()} with {os.cpu_count()} cores, Python {platform.python_version()}, one "
        "thread, except for SLURM.\nOther: a plain loop over queries; for SLURM, one submission per job."
    )
    return finish(out, "What the workflow costs", about, rows, "other")


if __name__ == "__main__":
    sys.exit(main())
