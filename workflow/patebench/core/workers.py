"""Several processes for work that falls into pieces.

How many is a matter of the machine, not of what is computed: a command says it once, and results do not depend on it.
"""

import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from patebench.core.errors import PatebenchError

Piece = TypeVar("Piece")
Result = TypeVar("Result")

#: Pieces that are on their way for each process, so that none waits and memory stays bounded.
_AHEAD = 2

#: Libraries that would start threads of their own in each process.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_processes = 1


def available() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use(processes: int) -> None:
    """From now on share work among so many processes."""
    global _processes
    _processes = processes


def in_order(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> Iterator[Result]:
    """`work` of each piece, in their order; by this process alone unless `use` said otherwise.

    What can not pass to another process, as functions without a name, is done here. Raises PatebenchError when a
    process is killed.
    """
    if _processes == 1:
        yield from map(work, pieces)
        return
    # Imported here, as most commands need no process but their own and should start at once.
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    waiting: deque[tuple[Piece, Future[Result]]] = deque()

    def first() -> Result:
        piece, future = waiting.popleft()
        try:
            return future.result()
        except _CanNotPassError:
            return work(piece)

    # A process that was killed shows in a result, or in the next piece that is sent.
    try:
        with _one_thread_each(), ProcessPoolExecutor(_processes, mp_context=get_context("spawn")) as pool:
            for piece in pieces:
                waiting.append((piece, pool.submit(_there, _packed(work, piece))))
                if len(waiting) >= _AHEAD * _processes:
                    yield first()
            while waiting:
                yield first()
    except BrokenProcessPool as error:
        raise PatebenchError(
            f"one of {_processes} processes was killed, perhaps for memory; give more of it, or fewer --threads"
        ) from error


class _CanNotPassError(Exception):
    """Work or a piece that can not be sent, or not be read where it arrives."""


def _packed(work: Callable[[Piece], Result], piece: Piece) -> bytes | None:
    try:
        return pickle.dumps((work, piece))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def _there(packed: bytes | None) -> Any:
    """In the other process: the work."""
    try:
        work, piece = pickle.loads(packed or b"")
    except (EOFError, ImportError, AttributeError) as error:
        raise _CanNotPassError from error
    return work(piece)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes that start now compute in one thread each."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
