"""Run the whole workflow on the embedded digits."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.workflow.conftest import PATIENCE, Make, Settings, Workflow, environment, rules_of

from patebench import __version__
from patebench.artefacts.reading import read_votes
from patebench.config import validate
from patebench.core import formats
from patebench.core.files import read_arrays, read_json
from patebench.core.seeds import generator
from patebench.mechanisms.base import make_mechanism
from patebench.mechanisms.noise_shares import DistributedGNMax

pytestmark = pytest.mark.workflow

#: Rules after a release, the only ones that may run if its noise changes.
BELOW_NOISE = {"aggregate", "account", "audit", "train_student", "collect", "manifest", "report", "all"}


def test_everything_is_made_without_a_home_and_then_nothing_is_left_to_do(finished: Workflow) -> None:
    page = (finished.folder / "results" / "report.html").read_text()
    assert "<html" in page
    assert finished.planned() == set()
    manifest = read_json(finished.folder / "results" / "manifest.json", "manifest")
    shown = {f"{kind}-{name}" for kind in ("figure", "table") for name in manifest[f"{kind}s"]}
    assert len(shown) > 10
    empty = {each for each in shown if f'id="{each}"' not in page}
    assert empty <= {"figure-equal-epsilon", "table-equal-epsilon"}, "which need an ε of 8 or less"
    assert manifest["seeds"] == [0]


def test_it_runs_from_any_folder(workflow: Make, tiny: Settings, tmp_path: Path) -> None:
    """Find the default configuration next to the Snakefile, and a given one from the current folder."""
    copy, here = workflow(tiny), tmp_path / "any where"
    copy.command()  # writes test.yaml
    here.mkdir()

    def run(*words: str) -> str:
        start = [sys.executable, "-m", "snakemake", "-s", str(copy.folder / "Snakefile"), "--cores", "1"]
        done = subprocess.run([*start, *words], cwd=here, env=environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    run("--configfile", str(copy.folder / "test.yaml"), "--until", "split")
    assert len(list(here.glob("results/digits/*/pool.npz"))) == 1
    assert "train_teachers" in run("--dry-run", "--quiet", "host", "--directory", str(tmp_path / "results here"))
    assert not (copy.folder / "results").exists()


def test_every_job_has_a_log_whose_command_can_be_run_by_hand_and_a_benchmark(
    finished: Workflow, tmp_path: Path
) -> None:
    """Run the command in the first line of a log, and compare the bytes of its output."""
    results = finished.folder / "results"
    logs = {path.relative_to(results / "logs").with_suffix("") for path in results.glob("logs/**/*.log")}
    timed = {path.relative_to(results / "benchmarks").with_suffix("") for path in results.glob("benchmarks/**/*.tsv")}
    assert logs == timed
    assert {str(path) for path in timed} == set(validate(finished.settings).job_names())
    assert all((results / "logs" / path.with_suffix(path.suffix + ".log")).stat().st_size > 0 for path in logs)
    log = finished.find("logs/aggregate/**/lnmax/gamma-1.log")
    words = shlex.split(log.read_text().splitlines()[0].split(f"patebench {__version__}: ")[1])
    words[words.index("--out") + 1] = str(tmp_path / "labels.npz")
    words[words.index("--log") + 1] = str(tmp_path / "log")
    subprocess.run([Path(sys.executable).with_name("patebench"), *words], cwd=finished.folder, check=True)
    assert (tmp_path / "labels.npz").read_bytes() == finished.find("**/lnmax/gamma-1/labels.npz").read_bytes()


def test_one_changed_noise_setting_reruns_only_what_lies_below_it(copy: Workflow) -> None:
    copy.settings["experiments"]["tiny"]["mechanisms"]["lnmax"]["gamma"] = [0.2, 1.0]
    said = copy.run("--dry-run")
    assert set() < rules_of(said) <= BELOW_NOISE
    jobs = [line.split(": ")[1] for line in said.splitlines() if line.strip().startswith("output: ")]
    releases = [job for job in jobs if job.endswith(("labels.npz", "bounds.json", "student.json"))]
    assert releases
    assert all("/lnmax/gamma-0.2/" in job for job in releases), releases


def test_a_changed_option_reruns_its_jobs_but_data_that_moved_and_experiments_left_out_none(copy: Workflow) -> None:
    copy.settings["experiments"]["tiny"]["accounting"]["delta"] = 1e-6
    second = {"pool": 50, "accounting": {"delta": 1e-6}, "students": []}
    copy.settings["experiments"]["second"] = copy.settings["experiments"]["tiny"] | second
    copy.settings |= {"data_root": "elsewhere", "download": False}
    changed = {"account", "audit", "collect", "manifest", "report", "all"}
    assert copy.planned("--config", "only=tiny") == changed
    assert copy.planned() > changed, "the second experiment has jobs of its own"


def test_a_release_is_made_once(copy: Workflow) -> None:
    """Draw a release from the operating system, and check that it is not drawn again."""
    release = {"mechanisms": {"gnmax": {"sigma": 2}}, "students": [], "accounting": {"delta": 1e-5}}
    copy.settings["experiments"]["tiny"] |= release
    copy.settings["experiments"]["tiny"]["ensembles"][0]["partition"] = "iid"  # whose votes are there
    copy.settings["mode"] = "release"
    copy.run("--until", "collect")
    labels = copy.find("**/gnmax/sigma-2_release/labels.npz")
    drawn = labels.read_bytes()
    assert copy.planned("--until", "collect") == set()
    status, said = copy.attempt("--forcerun", "aggregate")
    assert status != 0
    assert (
        "this file already exists, and drawing a release" in said or "protected" in said
    )  # root may write to protected files
    assert labels.read_bytes() == drawn


def test_the_secure_path_gives_the_plain_paths_counts_and_labels(copy: Workflow) -> None:
    """Compare bit for bit, and check that each party's command names only its own files."""
    copy.settings["experiments"]["tiny"] |= {"mechanisms": {"distributed-gnmax": {"sigma": 4, "tolerance": 2}}}
    copy.settings["experiments"]["tiny"]["students"] = []
    del copy.settings["experiments"]["tiny"]["audit"]
    copy.settings["secure"] = {"aggregators": 3}
    copy.run("--until", "collect")
    labels = copy.find("**/distributed-gnmax/sigma-4_tolerance-2_secure-3/labels.npz")
    _, votes = read_votes(labels.parents[2] / "votes.npz")
    folder = str(labels.parent.relative_to(copy.folder / "results"))
    mechanism = make_mechanism("distributed-gnmax", {"sigma": 4, "tolerance": 2})
    assert isinstance(mechanism, DistributedGNMax)
    noisy = mechanism.noisy(votes.counts, votes.teachers, generator(0, folder.removesuffix("_secure-3")))
    counts = read_arrays(labels.with_name("noisy_counts.npz"), formats.NOISY_COUNTS)
    np.testing.assert_array_equal(counts["counts"], noisy)
    np.testing.assert_array_equal(read_arrays(labels, formats.LABELS)["labels"], noisy.argmax(axis=1))
    assert not list(labels.parent.glob("secure/*/[0-9]*.npz")), "shares are gone once they are summed"
    logs = copy.folder / "results" / "logs"
    for aggregator in (1, 2, 3):
        (log,) = logs.glob(f"secure_sum/**/{aggregator}.log")
        seen = set(re.findall(r"(?:aggregator-\d|chunks|votes)", log.read_text()))
        assert seen == {f"aggregator-{aggregator}"}
    for log in logs.glob("secure_share/**/*.log"):
        assert re.findall(r"chunks/(\S+)\.npz", log.read_text()) == [log.stem]


def test_a_run_that_is_killed_twice_continues_and_ends_with_the_same_votes(
    finished: Workflow, workflow: Make, tiny: Settings
) -> None:
    """SIGKILL to Snakemake alone, then also to its jobs, leaves a lock and some chunks; the next run goes on.

    The sizes of chunks and the place of the data differ from those of the finished run, and change no vote either.
    """
    tiny["experiments"]["tiny"]["ensembles"][0]["chunk"] = 2
    tiny["data_root"] = "elsewhere"
    killed, options = workflow(tiny), ("--rerun-incomplete", "--until", "join_votes", "--cores", "1")

    def chunks() -> list[Path]:
        return list((killed.folder / "results").glob("**/chunks/[0-9]*.npz"))

    def times() -> dict[Path, int]:
        return {chunk: chunk.stat().st_mtime_ns for chunk in chunks()}

    left = {}
    for count, kill in ((2, os.kill), (4, os.killpg)):
        process = killed.start(*options)
        wait_until(lambda: len(chunks()) >= count)  # noqa: B023
        kill(process.pid, signal.SIGKILL)
        process.communicate()
        left[count] = times()
        assert len(left[count]) < 5, "the run was killed too late to show anything"
        killed.run("--unlock")
    killed.run(*options)
    assert killed.votes() == finished.votes()
    # One job runs at a time, so Snakemake knew that all of these chunks were finished, except the last one and one that
    # the job that outlived the first kill may have written during the second run.
    for count, before in left.items():
        assert len(before.items() & times().items()) >= count // 2, "finished chunks must not be trained again"


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def test_two_runs_at_once_are_refused_and_harm_nothing(workflow: Make, tiny: Settings) -> None:
    copy = workflow(tiny)
    first = copy.start("--until", "split")
    # Snakemake creates a lock before it fills it; the lock of the outputs comes last.
    wait_until(lambda: any(lock.stat().st_size for lock in copy.folder.glob(".snakemake/locks/*.output.lock")))
    os.kill(first.pid, signal.SIGSTOP)
    try:
        # Without this the second one may also be refused because files of the first are not complete yet.
        status, said = copy.attempt("--rerun-incomplete", "--until", "split")
    finally:
        os.kill(first.pid, signal.SIGCONT)
        ended = copy.end(first)[0]
    assert status != 0
    assert "cannot be locked" in said
    assert ended == 0
    assert copy.find("**/pool.npz").exists()


def test_a_wrong_configuration_is_one_line_before_any_job(workflow: Make, tiny: Settings) -> None:
    tiny["experiments"]["tiny"]["ensembles"][0]["model"] = "logistik"
    wrong = workflow(tiny)
    status, said = wrong.attempt()
    assert status != 0
    assert "experiments.tiny.ensembles[0].model: unknown model 'logistik' (did you mean 'logistic'?); known: " in said
    assert "Traceback" not in said
    assert not (wrong.folder / "results").exists()


def test_a_damaged_artefact_is_named_and_remade(copy: Workflow, finished: Workflow) -> None:
    votes, labels = copy.find("**/votes.npz"), copy.find("**/gnmax/sigma-2/labels.npz")
    votes.write_bytes(votes.read_bytes()[:-100])
    labels.unlink()
    target = str(labels.relative_to(copy.folder))
    status, said = copy.attempt(target)
    assert status != 0
    assert f"patebench: {votes.relative_to(copy.folder)}: it is truncated or damaged" in said
    assert "delete the file and run snakemake again" in said
    votes.unlink()
    copy.run("--rerun-incomplete", target)
    assert copy.votes() == finished.votes()
    assert labels.read_bytes() == finished.find("**/gnmax/sigma-2/labels.npz").read_bytes()


def test_snakemakes_own_report(finished: Workflow, tmp_path: Path) -> None:
    finished.run("--report", str(tmp_path / "report.zip"))
    assert (tmp_path / "report.zip").stat().st_size > 100_000
