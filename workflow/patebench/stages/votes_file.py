"""Votes from a file that anybody may have written: a plain .npy of counts or votes, or our own votes.npz.

Nothing is unpickled, and what is not exactly a table of votes is refused in one line that names the file.
"""

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Votes
from patebench.core.errors import PatebenchError
from patebench.stages.ledger_file import records_of
from patebench.stages.reading import read_votes

#: Larger numbers are neither labels nor counts; below it no sum over the classes can overflow.
_LARGEST = 1 << 40


def read(path: Path, labels: bool = False, classes: int | None = None) -> Votes:
    """The votes in `path`: counts (queries × classes) or, with `labels`, votes (teachers × queries) of `classes`.

    An artefact votes.npz says itself what it holds. Raises PatebenchError for anything else.
    """
    magic = _first_bytes(path)
    if magic.startswith(b"PK"):
        return _artefact(path, classes)
    if not magic.startswith(np.lib.format.MAGIC_PREFIX):
        raise PatebenchError(f"{path}: is no .npy file and no votes.npz; save the array with numpy.save")
    if labels and classes is None:
        raise PatebenchError(f"{path}: votes do not say how many classes there are; add --classes")
    if classes is not None and not labels:
        raise PatebenchError(f"{path}: --classes goes with --votes; counts have one column per class")
    table = _whole(path, _load(path))
    with _blaming(path):
        if classes is not None:
            return Votes.of(table, classes)
        _check_totals(table)
        return Votes.from_counts(table)


def private_records(path: Path, votes: Votes) -> tuple[str, str]:
    """Whose votes those of `path` are: a digest of the private records behind them, and the partition into shards.

    An array does not say: it has a digest of its counts, so that votes and their counts are known as the same.
    """
    if _first_bytes(path).startswith(b"PK"):
        source, _ = read_votes(path)
        return records_of(source), str(source.meta["partition"])
    content = hashlib.sha256(f"counts {votes.counts.shape}".encode())
    content.update(np.ascontiguousarray(votes.counts, dtype="<i8").tobytes())
    return content.hexdigest(), content.hexdigest()


def _first_bytes(path: Path) -> bytes:
    try:
        with open(path, "rb") as stream:
            magic = stream.read(8)
    except OSError as fault:
        raise PatebenchError(f"{path}: can not be read ({fault.strerror}); give the path of a .npy file") from None
    if not magic:
        raise PatebenchError(f"{path}: is empty; save the array with numpy.save")
    return magic


def _artefact(path: Path, classes: int | None) -> Votes:
    _, votes = read_votes(path)
    if classes not in (None, votes.classes):
        raise PatebenchError(f"{path}: holds votes among {votes.classes} classes, not {classes}; leave --classes out")
    return votes


def _load(path: Path) -> NDArray[Any]:
    """The array, mapped rather than read: a header that promises more than the file holds allocates nothing."""
    shape, dtype, size = _header(path)
    if dtype.hasobject:
        raise PatebenchError(f"{path}: holds pickled objects, which are never loaded; save an array of integers")
    if path.stat().st_size != size:
        raise PatebenchError(f"{path}: has {path.stat().st_size} bytes where {size} are due; write it again")
    if 0 in shape:
        raise PatebenchError(f"{path}: holds an array of shape {shape}, without a single vote")
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, dtype and the size that the whole file must have."""
    try:
        with open(path, "rb") as stream, warnings.catch_warnings(action="ignore"):
            major, minor = np.lib.format.read_magic(stream)
            read_header = getattr(np.lib.format, f"read_array_header_{major}_{minor}")
            shape, _, dtype = read_header(stream)
            return shape, dtype, stream.tell() + int(np.prod(shape, dtype=object)) * dtype.itemsize
    except Exception as fault:  # a damaged header is parsed as Python, and fails in as many ways
        words = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
        raise PatebenchError(f"{path}: is truncated or damaged ({words}); write it again with numpy.save") from None


def _whole(path: Path, array: NDArray[Any]) -> NDArray[np.integer]:
    """The array as integers; floating-point numbers pass if each is exactly one."""
    if array.ndim != 2:
        raise PatebenchError(f"{path}: holds an array of shape {array.shape}; two dimensions are needed")
    if array.dtype.kind not in "iuf":
        raise PatebenchError(f"{path}: holds an array of dtype {array.dtype}; integers are needed")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise PatebenchError(f"{path}: holds NaN or infinite values; votes are whole numbers")
    if array.min() < 0 or array.max() >= _LARGEST:
        raise PatebenchError(f"{path}: holds {array.min()} to {array.max()}, which are no numbers of votes or classes")
    if array.dtype.kind in "iu":
        return array
    whole = array.astype(np.int64)
    if not np.array_equal(whole, array):
        raise PatebenchError(f"{path}: holds fractions such as {array[whole != array][0]:g}; votes are whole numbers")
    return whole


def _check_totals(counts: NDArray[np.integer]) -> None:
    totals = counts.sum(axis=1)
    if (other := np.flatnonzero(totals != totals[0])).size:
        query = int(other[0])
        raise PatebenchError(
            f"query 0 has {totals[0]} votes and query {query} has {totals[query]}; each teacher votes once on every "
            "query (if these are votes, teachers × queries, and not counts, add --votes --classes)"
        )


@contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Let a message start with the file that it is about."""
    try:
        yield
    except PatebenchError as fault:
        raise PatebenchError(f"{path}: {fault}") from None
