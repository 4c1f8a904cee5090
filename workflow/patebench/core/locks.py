"""Locks: a file that one process at a time may change, and those that a killed Snakemake left behind.

Snakemake marks its working folder as locked with plain files, which outlive a SIGKILL or a power cut; the next run then
refuses to start although nothing runs. The kernel knows better: a lock on an open file ends with its process.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

#: Open for the life of the process: closing the file would end its lock.
_held: list[IO[str]] = []


def clear_stale_locks(folder: Path) -> bool:
    """Remove Snakemake's locks below `folder` (its `.snakemake`) if no process that called this is alive; say whether.

    Every caller keeps a shared lock until it ends, and only a caller that could have the lock for itself alone removes
    anything. Two that start together therefore both leave Snakemake's own locks to decide.
    """
    folder.mkdir(parents=True, exist_ok=True)
    alive = open(folder / "alive.lock", "w")  # noqa: SIM115
    _held.append(alive)
    fcntl.flock(alive, fcntl.LOCK_SH)
    try:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # A failed conversion may have dropped the shared lock.
        fcntl.flock(alive, fcntl.LOCK_SH)
        return False
    stale = (folder / "locks").is_dir() and any((folder / "locks").iterdir())
    if stale:
        shutil.rmtree(folder / "locks")
    fcntl.flock(alive, fcntl.LOCK_SH)
    return stale


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process is in here for the same path, and keep others waiting; a killed one lets go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
