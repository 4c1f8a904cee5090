"""The one device that a process trains on: a GPU that no other job of this machine has taken, or the CPU.

Everything that trains asks `device()`, so a job never takes a second GPU, nor one that another job has taken.
"""

import ctypes
import fcntl
import logging
import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

log = logging.getLogger("patebench")

#: Open lock files of this process: a lock lasts until its file is closed, by `release` or by the end of the process.
_held: list[int] = []

#: glibc's names for what `mallopt` sets: when free memory goes back to the kernel, and what the kernel gives directly.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


@cache
def device() -> torch.device:
    """The CPU where there is no GPU (see `keep_freed_memory`), else one GPU for all that this process trains.

    The GPU is the first that no other process has claimed, or, if all are claimed, one that is shared.
    """
    if not torch.cuda.is_available():
        keep_freed_memory()
        return torch.device("cpu")
    names = [str(torch.cuda.get_device_properties(i).uuid) for i in range(torch.cuda.device_count())]
    index = claim(names)
    if index is None:
        index = os.getpid() % len(names)
        log.info("no GPU is free; sharing number %d (--resources gpu=%d keeps jobs apart)", index, len(names))
    return torch.device("cuda", index)


def claim(names: Sequence[str], folder: Path | None = None) -> int | None:
    """Claim the first of the GPUs `names` that no process of any user holds, and return its index.

    The claim is a lock on a file in `folder`, by default the temporary folder. It lasts until `release`, or until the
    process ends. Return None if all GPUs are held. A GPU whose file cannot be opened or locked counts as held.
    """
    for index, name in enumerate(names):
        with suppress(OSError):
            _held.append(_lock((folder or Path(tempfile.gettempdir())) / f"patebench-gpu-{name}.lock"))
            return index
    return None


def _lock(path: Path) -> int:
    """Lock a file that belongs to any user and return its descriptor; raises OSError where that fails.

    Everybody may write to the temporary folder, so links are not followed, and the file is opened only for reading.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        lock = os.open(path, flags)
    except FileNotFoundError:
        lock = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o444)
    try:
        found = os.fstat(lock)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # a hard link may be of any file of this user
            raise OSError(f"{path} is no lock file")
        if os.fstat(lock).st_uid == os.geteuid():
            os.fchmod(lock, 0o444)  # whatever the umask: other users have to open it
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def release() -> None:
    """Give up every claim of this process, and let the next call of `device` choose again."""
    while _held:
        os.close(_held.pop())
    device.cache_clear()


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, for its next batch.

    glibc returns large blocks to the kernel, which hands them out again page by page and zeroed. That takes a third of
    the time in which a small network predicts a pool. With another C library nothing happens.
    """
    change = getattr(ctypes.CDLL(None), "mallopt", None)
    if change is not None:
        change(_MMAP_THRESHOLD, 32 << 20)
        change(_TRIM_THRESHOLD, 512 << 20)
