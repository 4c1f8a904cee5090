"""Test the manifest: times by rule, versions, and runs outside a checkout."""

import os
import subprocess
import sys

import pytest

from patebench import __version__
from patebench.core.errors import ArtefactError
from patebench.stages import manifest

HEAD = "s\th:m:s\tmax_rss\tmax_vms\n"


def _benchmark(path, lines, finished):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + lines, encoding="utf-8")
    os.utime(path, (finished, finished))


def _times(folder, jobs):
    return manifest.job_times(folder, manifest.end_times(folder, jobs))


def test_times_by_rule(tmp_path):
    _benchmark(tmp_path / "teach" / "digits" / "0-24.tsv", "10.5\t0:00:10\t200.5\t1\n", 1_000_100)
    _benchmark(tmp_path / "teach" / "digits" / "25-49.tsv", "30\t0:00:30\t150\t1\n", 1_000_200)
    _benchmark(tmp_path / "votes" / "digits.tsv", "0.3\t0:00:00\t-\t-\n", 1_000_300)
    _benchmark(tmp_path / "teach" / "mnist" / "0-24.tsv", "99\t0:01:39\t999\t1\n", 1_000_400)  # of another run
    found = _times(tmp_path, ["teach/digits/0-24", "teach/digits/25-49", "votes/digits", "data/digits"])
    assert found["rules"] == [
        {"rule": "teach", "jobs": 2, "seconds": 40.5, "longest": 30.0, "memory_mb": 200.5},
        {"rule": "votes", "jobs": 1, "seconds": 0.3, "longest": 0.3, "memory_mb": 0.0},
    ]
    assert found["started"] == "1970-01-12T13:48:09+00:00"  # 1 000 100 s less 10.5 s
    assert found["finished"] == "1970-01-12T13:51:40+00:00"


def test_no_benchmarks_no_times(tmp_path):
    assert _times(tmp_path / "none", ["data/digits"]) == {"rules": [], "started": None, "finished": None}


@pytest.mark.parametrize("lines", ["fast\t0:00:10\t1\t1\n", "\t\t\t\n"])
def test_refuses_a_damaged_benchmark(tmp_path, lines):
    _benchmark(tmp_path / "teach" / "a.tsv", lines, 0)
    with pytest.raises(ArtefactError, match="not a benchmark file of Snakemake"):
        _times(tmp_path, ["teach/a"])


def test_holds_versions_and_machine(tmp_path):
    content = manifest.read_circumstances(tmp_path / "none", [])
    assert content["versions"]["patebench"] == __version__
    assert content["versions"]["python"] == sys.version.split()[0]
    assert set(manifest.LIBRARIES) < set(content["versions"])
    assert content["hardware"]["cores"] >= 1
    assert content["hardware"]["memory"] > 2**20


def test_a_missing_library_or_git_is_no_fault(monkeypatch):
    monkeypatch.setattr(manifest, "LIBRARIES", ("no-such-library-anywhere",))
    assert manifest.versions()["no-such-library-anywhere"] == "not installed"
    monkeypatch.setenv("PATH", "")
    assert manifest.commit() is None
    assert manifest.hardware()["gpus"] == []


def test_the_commit_is_that_of_the_checkout(tmp_path, monkeypatch):
    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *identity, "-C", str(tmp_path), *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    module = tmp_path / "module.py"
    module.write_text("")
    git("init", "-q")
    monkeypatch.setattr(manifest, "__file__", str(module))
    assert manifest.commit() is None  # not tracked
    git("add", "module.py")
    git("commit", "-q", "-m", "made")
    assert manifest.commit() == {"id": git("rev-parse", "HEAD"), "dirty": False}
    made_at = float(git("show", "--no-patch", "--format=%ct"))
    for name, moment in (("older", made_at - 100), ("newer", made_at + 100)):
        path = tmp_path / "benchmarks" / f"{name}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_text("s\tmax_rss\n1\t1\n")
        os.utime(path, (moment, moment))
    content = manifest.read_circumstances(tmp_path / "benchmarks", ["older", "newer", "missing"])
    assert content["commit"]["older_jobs"] == 1
    module.write_text("# changed\n")
    assert manifest.commit() == {"id": git("rev-parse", "HEAD"), "dirty": True}
