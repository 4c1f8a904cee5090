"""Locks of dead runs go, locks of living ones stay."""

import subprocess
import sys
from pathlib import Path

HOLD = """
import sys, pathlib
from patebench.core.locks import clear_stale_locks
print(clear_stale_locks(pathlib.Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


class Run:
    """A process that calls the function, remembers what that said, and lives until the block ends."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", HOLD, str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.cleared = self.process.stdout.readline().strip() == "True"

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *fault: object) -> None:
        self.process.kill()
        self.process.communicate()


def lock(folder: Path) -> Path:
    """Lock a folder as Snakemake does."""
    (folder / "locks").mkdir()
    (folder / "locks" / "0.input.lock").write_text("results/digits/private.npz\n")
    return folder / "locks"


def test_a_killed_runs_lock_is_removed(tmp_path: Path) -> None:
    with Run(tmp_path) as first:
        assert not first.cleared
        locks = lock(tmp_path)
    with Run(tmp_path) as second:
        assert second.cleared
    assert not locks.exists()


def test_a_living_runs_lock_is_kept_also_when_another_came_and_went(tmp_path: Path) -> None:
    with Run(tmp_path):
        locks = lock(tmp_path)
        with Run(tmp_path) as second:
            assert not second.cleared
        with Run(tmp_path) as third:
            assert not third.cleared
        assert any(locks.iterdir())
