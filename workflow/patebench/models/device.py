"""The one device that a process trains on: a GPU that no other job of this machine has taken, or the CPU.

Everything that trains asks `device()`, so a job never takes a second GPU, nor one that another job has taken.
"""

import ctypes
import fcntl
import logging
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TextIO

import torch

log = logging.getLogger("patebench")

#: Open lock files of this process: a lock lasts until its file is closed, by `release` or by the end of the process.
_held: list[TextIO] = []

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
    index = claim(names, Path(tempfile.gettempdir()))
    if index is None:
        index = os.getpid() % len(names)
        log.info("every GPU is taken; sharing number %d (--resources gpu=%d keeps jobs apart)", index, len(names))
    return torch.device("cuda", index)


def claim(names: Sequence[str], folder: Path) -> int | None:
    """Claim the first of the GPUs `names` that no process holds, by a lock file in `folder`; return its index.

    None if all are held. The claim lasts until `release`, or until the process ends, however it ends.
    """
    for index, name in enumerate(names):
        lock = (folder / f"patebench-gpu-{name}.lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        _held.append(lock)
        return index
    return None


def release() -> None:
    """Give up every claim of this process: close the lock files, and let the next call of `device` choose anew."""
    while _held:
        _held.pop().close()
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
