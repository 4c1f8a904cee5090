"""Files of a stage after a full disk, a kill and a power failure."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from patebench.core import files
from patebench.core.files import atomic, read_arrays, write_arrays
from patebench.core.formats import LABELS, VOTES

PATEBENCH = Path(sys.executable).with_name("patebench")


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    path = tmp_path / "votes.npz"
    arrays = {"votes": np.zeros((20, 5000), np.int8), "test_votes": np.zeros((20, 3), np.int8)}
    facts = {"partition": "-", "pool": "-", "test": "-", "classes": 3, "chunks": []}
    write_arrays(path, VOTES, arrays, facts)
    return path


def stage(votes: Path, name: str, *more: str | Path, largest: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a stage on votes; no file that it writes can grow beyond `largest` bytes, as on a disk that is full."""

    def limit() -> None:
        if largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    words = [name, "--votes", votes, "--seed", "0", "--stream", "s"]
    words += ["--mechanism", "gnmax", "--parameter", "sigma=2"] if name == "aggregate" else []
    return subprocess.run([PATEBENCH, *words, *more], capture_output=True, text=True, preexec_fn=limit)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aggregate", "account"])
def test_a_full_disk_is_one_line_and_leaves_everything_as_it_was(votes: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out" / ("labels.npz" if name == "aggregate" else "bounds.json")
    labels = tmp_path / "labels.npz"
    more: tuple[str | Path, ...] = ()
    if name == "account":
        assert stage(votes, "aggregate", "--out", labels).returncode == 0  # type: ignore[arg-type]
        more = ("--labels", labels, "--queries", "5000", "--delta", "1e-5")
    command = [name, *more, "--out", out]
    for before in (None, b"what was there"):
        if before:
            out.write_bytes(before)
        failed = stage(votes, *command, largest=1000)  # type: ignore[arg-type]
        assert failed.returncode == 2
        assert failed.stderr == (
            f"patebench: {out}: it cannot be written (File too large); raise the limit on the size of files and run "
            "the same command again.\n"
        )
        assert [path.name for path in out.parent.iterdir()] == ([out.name] if before else [])
        assert not before or out.read_bytes() == before
    assert stage(votes, *command).returncode == 0  # type: ignore[arg-type]
    assert out.stat().st_size > 1000


def test_a_log_that_cannot_grow_ends_no_work(votes: Path, tmp_path: Path) -> None:
    said = stage(votes, "aggregate", "--out", tmp_path / "labels.npz", "--log", "/dev/full")
    assert said.returncode == 0
    assert (
        said.stderr == "patebench: /dev/full: the log cannot be written (No space left on device) and ends here; "
        "the program continues\n"
    )
    read_arrays(tmp_path / "labels.npz", LABELS)


def test_a_job_that_is_killed_while_it_writes_leaves_the_old_file(votes: Path) -> None:
    before = votes.read_bytes()
    script = (
        "import os, sys; from patebench.core.files import atomic\n"
        "with atomic(sys.argv[1]) as temporary:\n"
        "    temporary.write_bytes(b'half'); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script, votes]).returncode == -signal.SIGKILL
    assert votes.read_bytes() == before
    said = subprocess.run([PATEBENCH, "check", votes.parent], capture_output=True, text=True).stdout
    assert "1 file left by killed jobs, which may be deleted" in said


def test_a_power_cut_loses_nothing_that_was_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content is flushed to disk before the rename, and the rename before the stage continues."""
    order: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(number: int) -> None:
        order.append(Path(os.readlink(f"/proc/self/fd/{number}")).name)
        sync(number)

    def replaced(source: Path, target: Path) -> None:
        order.append("renamed")
        replace(source, target)

    monkeypatch.setattr(files.os, "fsync", synced)
    monkeypatch.setattr(files.os, "replace", replaced)
    with atomic(tmp_path / "folder" / "file") as temporary:
        temporary.write_text("content")
    assert order == [temporary.name, "renamed", "folder"]
