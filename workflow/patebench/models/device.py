"""Where a job computes: on a GPU that no other job of this machine has taken, or on the CPU."""

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

#: Locks of this process: they last as long as it does, however it ends.
_held: list[TextIO] = []

#: glibc's names for what `mallopt` sets: when free memory goes back to the kernel, and what the kernel gives directly.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


@cache
def device() -> torch.device:
    """The CPU where there is no GPU, and then memory is kept for it; else one GPU for all that this process trains."""
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
    """The index of the first of `names` that no living process has claimed in `folder`, now ours; None if all are."""
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


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, for its next batch.

    glibc hands large blocks back to the kernel, which gives them out again page by page and zeroed: a third of the
    time that a small network takes to label a pool. Elsewhere nothing happens.
    """
    change = getattr(ctypes.CDLL(None), "mallopt", None)
    if change is not None:
        change(_MMAP_THRESHOLD, 32 << 20)
        change(_TRIM_THRESHOLD, 512 << 20)
