"""Read votes from a file that anybody may have written: .npy or CSV of counts or votes, or our own votes.npz.

Nothing is unpickled, and what is not exactly a table of votes is refused in one line that names the file.
"""

import hashlib
import warnings
from pathlib import Path
from typing import IO, Any

import click
import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import MOST_VOTES, Votes, check_table
from patebench.artefacts.reading import read_votes
from patebench.cli.command import together
from patebench.core.errors import ArtefactError, PatebenchError, located
from patebench.core.files import Artefact
from patebench.core.text import plural
from patebench.data.division import tallies

#: What a table of votes has in place of the digest of a pool. Not of the votes: it stands in labels that are released.
_NO_POOL = "queries of a table of votes"


#: The number of teachers in a table of votes, to confirm.
teachers_option = click.option(
    "--teachers", type=click.IntRange(min=1), default=None,
    help="How many teachers voted, to confirm a table of votes: needed where it has more teachers than queries.",
)  # fmt: skip

#: For commands that read votes of a file: with --classes a table holds votes, without it counts.
table_options = together(
  click.option(
    "--classes", type=click.IntRange(min=2), default=None,
    help="Where --votes is a table (.npy, CSV) of votes, teachers × queries: among so many classes. Without, it "
    "holds counts, queries × classes.",
  ),
  teachers_option,
)  # fmt: skip


def read(path: Path, labels: bool = False, classes: int | None = None, teachers: int | None = None) -> Votes:
    """Return the votes in `path`: counts (queries × classes) or, with `labels`, votes (teachers × queries).

    An artefact votes.npz stores its own orientation and number of classes. `teachers` confirms how many there are.
    Raises PatebenchError for anything else.
    """
    return read_source(path, labels, classes, teachers)[1]


def read_source(
    path: Path, labels: bool = False, classes: int | None = None, teachers: int | None = None
) -> tuple[Artefact, Votes]:
    """Do the same, and return the artefact too; a table makes one that knows neither its pool nor its shards."""
    if _first_bytes(path).startswith(b"PK"):
        return _artefact(path, classes, teachers)
    votes = _votes(path, labels, classes)
    with located(path):
        check_table(votes, teachers, "--teachers ")
    facts = {"kind": "table", "partition": tallies(votes.counts), "pool": _NO_POOL, "classes": votes.classes}
    return Artefact(path, {}, facts, _digest(votes)), votes


def say_what_was_read(source: Artefact, votes: Votes) -> None:
    """Tell of a table how it was understood, since it does not say itself what its rows and columns are."""
    if source.meta["kind"] != "table":
        return
    what = "counts" if votes.matrix is None else "votes"
    teachers, queries = plural(votes.teachers, "teacher"), plural(votes.queries, "query")
    click.echo(f"{source.path}: {what} of {teachers} on {queries} among {plural(votes.classes, 'class')}", err=True)


def _digest(votes: Votes) -> str:
    """Return the digest of the counts as they stand; votes and their counts have the same."""
    content = hashlib.sha256(f"counts {votes.counts.shape}".encode())
    content.update(np.ascontiguousarray(votes.counts, dtype="<i8").tobytes())
    return content.hexdigest()


def _votes(path: Path, labels: bool, classes: int | None) -> Votes:
    """Return the votes of a table."""
    if labels and classes is None:
        raise PatebenchError(f"{path}: votes do not say how many classes there are; add --classes")
    if classes is not None and not labels:
        raise PatebenchError(f"{path}: --classes goes with --votes; counts have one column per class")
    is_array = _first_bytes(path).startswith(np.lib.format.MAGIC_PREFIX)
    table = _whole(path, _load(path) if is_array else _of_text(path))
    with located(path):
        if classes is not None:
            return Votes.of(table, classes)
        _check_totals(table)
        return Votes.from_counts(table)


def _of_text(path: Path) -> NDArray[Any]:
    """Return a table of numbers with commas between them, with or without a line of names above them."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise PatebenchError(f"{path}: is no .npy file and no CSV; save the array with numpy.save") from None
    first = lines[0].split(",") if lines else []
    names = [cell for cell in first if not _is_number(cell)]
    if first and not first[0].strip("\"' "):
        raise PatebenchError(f"{path}: its first column has no name, as a column of row numbers; write it without one")
    if names and len(names) < len(first):
        raise PatebenchError(
            f"{path}: line 1 has {names[0][:40]!r} beside numbers; write names alone, or numbers alone"
        )
    if len(lines) <= bool(names):
        raise PatebenchError(f"{path}: holds no numbers; give a table of numbers, or save the array with numpy.save")
    try:
        return np.loadtxt(lines[bool(names) :], delimiter=",", comments=None, ndmin=2)
    except ValueError as fault:
        words = str(fault).partition("; ")[0]
        raise PatebenchError(f"{path}: is no table of numbers ({words}); write whole numbers, with commas") from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _first_bytes(path: Path) -> bytes:
    try:
        with open(path, "rb") as stream:
            magic = stream.read(8)
    except OSError as fault:
        why = f"it can not be read ({fault.strerror})"
        raise ArtefactError(path, why, "give the path of a file of votes") from None
    if not magic:
        raise PatebenchError(f"{path}: is empty; save the array with numpy.save")
    return magic


def _artefact(path: Path, classes: int | None, teachers: int | None) -> tuple[Artefact, Votes]:
    source, votes = read_votes(path)
    if teachers not in (None, votes.teachers):
        raise PatebenchError(
            f"{path}: holds votes of {plural(votes.teachers, 'teacher')}, not of {teachers}; leave --teachers out"
        )
    if classes not in (None, votes.classes):
        raise PatebenchError(f"{path}: holds votes among {votes.classes} classes, not {classes}; leave --classes out")
    return source, votes


def _load(path: Path) -> NDArray[Any]:
    """Return the array; a header that promises more than the file holds is refused before memory is allocated."""
    with open(path, "rb") as stream:
        shape, dtype, size = _described(path, stream)
    _check_header(path, shape, dtype, path.stat().st_size, size)
    array: NDArray[Any] = np.load(path, allow_pickle=False)
    return array


def _check_header(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], found: int, size: int) -> None:
    """Refuse an array whose file has not the size that its header promises, and one that is no table."""
    if dtype.hasobject:
        raise PatebenchError(f"{path}: holds pickled objects, which are never loaded; save an array of integers")
    if found != size:
        raise PatebenchError(f"{path}: has {plural(found, 'byte')} where {size} are due; write it again")
    if 0 in shape:
        raise PatebenchError(f"{path}: holds an array of shape {shape}, without a single vote")


def _described(path: Path, stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, dtype and the size that the whole stream must have."""
    try:
        with warnings.catch_warnings(action="ignore"):
            major, minor = np.lib.format.read_magic(stream)
            read_header = getattr(np.lib.format, f"read_array_header_{major}_{minor}")
            shape, _, dtype = read_header(stream)
            return shape, dtype, stream.tell() + int(np.prod(shape, dtype=object)) * dtype.itemsize
    except Exception as fault:  # a damaged header is parsed as Python, and fails in as many ways
        words = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
        raise PatebenchError(f"{path}: is truncated or damaged ({words}); write it again with numpy.save") from None


def _whole(path: Path, array: NDArray[Any]) -> NDArray[np.integer]:
    """Return the array as integers; floating-point numbers pass if each is exactly one."""
    if array.ndim != 2:
        raise PatebenchError(f"{path}: holds an array of shape {array.shape}; two dimensions are needed")
    if array.dtype.kind not in "iuf":
        raise PatebenchError(f"{path}: holds an array of dtype {array.dtype}; integers are needed")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise PatebenchError(f"{path}: holds NaN or infinite values; votes are whole numbers")
    if array.min() < 0 or array.max() >= MOST_VOTES:
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
            f"query 0 has {plural(totals[0], 'vote')} and query {query} has {totals[query]}; each teacher votes once "
            "on every query (if these are votes, teachers × queries, and not counts, add --votes --classes)"
        )
