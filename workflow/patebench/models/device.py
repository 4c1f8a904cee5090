"""Where a job computes: on a GPU that no other job of this machine has taken, or on the CPU."""

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


@cache
def device() -> torch.device:
    """The CPU where there is no GPU; else one GPU for all that this process trains."""
    if not torch.cuda.is_available():
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
