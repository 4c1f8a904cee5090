"""Run independent pieces of work in several processes.

A command sets the number of processes once; results do not depend on it.
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


def set_processes(processes: int) -> None:
    """Set the number of processes that later calls of `map_in_order` use."""
    global _processes
    _processes = processes


def map_in_order(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> Iterator[Result]:
    """Yield `work(piece)` for all `pieces` in order, computed in as many processes as `set_processes` has set.

    Raises PatebenchError if a process is killed.
    """
    if _processes == 1:
        yield from map(work, pieces)
        return
    # Imported here, since most commands need only one process and should start quickly.
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        with parallel_config(backend="loky", inner_max_num_threads=1):
            pool = Parallel(n_jobs=_processes, batch_size=1, return_as="generator")
            yield from pool(delayed(work)(piece) for piece in pieces)
    except TerminatedWorkerError as error:
        raise PatebenchError(
            f"one of {_processes} processes was killed, perhaps because memory ran out; use fewer processes (--threads)"
        ) from error
