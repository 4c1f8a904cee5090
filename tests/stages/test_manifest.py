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


def test_times_versions_and_machine(tmp_path):
    _benchmark(tmp_path / "teach" / "digits" / "0-24.tsv", "10.5\t0:00:10\t200.5\t1\n", 1_000_100)
    _benchmark(tmp_path / "teach" / "digits" / "25-49.tsv", "30\t0:00:30\t150\t1\n", 1_000_200)
    _benchmark(tmp_path / "votes" / "digits.tsv", "0.3\t0:00:00\t-\t-\n", 1_000_300)
    _benchmark(tmp_path / "teach" / "mnist" / "0-24.tsv", "99\t0:01:39\t999\t1\n", 1_000_400)  # of another run
    jobs = ["teach/digits/0-24", "teach/digits/25-49", "votes/digits", "data/digits"]
    found = manifest.read_circumstances(tmp_path, jobs)
    assert found["rules"] == [
        {"rule": "teach", "jobs": 2, "seconds": 40.5, "longest": 30.0, "memory_mb": 200.5},
        {"rule": "votes", "jobs": 1, "seconds": 0.3, "longest": 0.3, "memory_mb": 0.0},
    ]
    assert found["started"] == "1970-01-12T13:48:09+00:00"  # 1 000 100 s less 10.5 s
    assert found["finished"] == "1970-01-12T13:51:40+00:00"
    assert found["versions"]["patebench"] == __version__
    assert found["versions"]["python"] == sys.version.split()[0]
    assert set(manifest.LIBRARIES) < set(found["versions"])
    assert found["hardware"]["cores"] >= 1
    assert found["hardware"]["memory"] > 2**20


def test_a_missing_benchmark_library_or_git_is_no_fault_and_a_damaged_benchmark_is_one(monkeypatch, tmp_path):
    monkeypatch.setattr(manifest, "LIBRARIES", ("no-such-library-anywhere",))
    monkeypatch.setenv("PATH", "")
    found = manifest.read_circumstances(tmp_path / "none", ["data/digits"])
    assert (found["rules"], found["started"], found["finished"]) == ([], None, None)
    assert found["versions"]["no-such-library-anywhere"] == "not installed"
    assert (found["commit"], found["hardware"]["gpus"]) == (None, [])
    for lines in ("fast\t0:00:10\t1\t1\n", "\t\t\t\n"):
        _benchmark(tmp_path / "teach" / "a.tsv", lines, 0)
        with pytest.raises(ArtefactError, match="not a benchmark file of Snakemake"):
            manifest.read_circumstances(tmp_path, ["teach/a"])


def test_the_commit_is_that_of_the_checkout(tmp_path, monkeypatch):
    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        command = ["git", *identity, "-C", str(tmp_path), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

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
        _benchmark(tmp_path / "benchmarks" / f"{name}.tsv", "1\t\t1\t1\n", moment)
    content = manifest.read_circumstances(tmp_path / "benchmarks", ["older", "newer", "missing"])
    assert content["commit"]["older_jobs"] == 1
    module.write_text("# changed\n")
    assert manifest.commit() == {"id": git("rev-parse", "HEAD"), "dirty": True}
