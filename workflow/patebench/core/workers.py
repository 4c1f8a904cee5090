"""Several processes for work that falls into pieces.

Their number depends on the machine, not on what is computed: a command sets it once, and results do not depend on it.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from patebench.core.errors import PatebenchError

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_processes = 1


def available() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use(processes: int) -> None:
    """Set the number of processes that share work from now on."""
    global _processes
    _processes = processes


def in_order(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> Iterator[Result]:
    """Yield `work` of each piece in their order, computed by this process alone unless `use` set another number.

    Raises PatebenchError if a process is killed.
    """
    if _processes == 1:
        yield from map(work, pieces)
        return
    # Imported here, as most commands need no process but their own and should start at once.
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        with parallel_config(backend="loky", inner_max_num_threads=1):
            pool = Parallel(n_jobs=_processes, batch_size=1, return_as="generator")
            yield from pool(delayed(work)(piece) for piece in pieces)
    except TerminatedWorkerError as error:
        raise PatebenchError(
            f"one of {_processes} processes was killed, perhaps for memory; give more of it, or fewer --threads"
        ) from error
