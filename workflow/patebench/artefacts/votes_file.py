"""Read votes from untrusted files: .npy or CSV of counts or votes, .npz with an array `votes`, or an artefact.

Nothing is unpickled. Any other file raises a one-line error that names the file.
"""

import hashlib
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import ABSTAINED, MOST_VOTES, Votes, check_table
from patebench.artefacts.reading import read_votes
from patebench.cli.command import CLASSES, COUNT
from patebench.core.errors import ArtefactError, PatebenchError, located
from patebench.core.files import META, Artefact
from patebench.core.text import plural
from patebench.data.division import digest_counts

#: Text stored for a table of votes in place of the digest of a pool. Released labels store this text, so it must not
#: depend on the votes.
NO_POOL = "queries of a table of votes"

#: Archive member with the votes in a .npz file that patebench did not write; other .npz files are read as artefacts.
_ARRAY = "votes.npy"


#: Option for the number of teachers, to detect a transposed table of votes.
teachers_option = click.Option(
    ["--teachers"], type=COUNT, default=None,
    help="Number of teachers, to confirm the shape of a table; required if a table has more teachers than queries.",
)  # fmt: skip

#: Options of commands that read votes from a file: with --classes a table contains votes, without it counts.
table_options = [
    click.Option(
        ["--classes"],
        type=CLASSES,
        help="Number of classes if --votes is a table (.npy, CSV) of votes, teachers × queries. Without it, the table "
        "contains counts, queries × classes.",
    ),
    teachers_option,
]


def read_source(
    path: Path, labels: bool = False, classes: int | None = None, teachers: int | None = None
) -> tuple[Artefact, Votes]:
    """Read votes from the file `path`; return the file as an artefact, and the votes.

    The file is an artefact votes.npz or a table. If `labels` is False, a table contains counts (queries × classes). If
    `labels` is True, a table contains the votes of each teacher (teachers × queries), as labels 0 … `classes` − 1.
    Raises PatebenchError for any other content, and if the votes contradict `classes` or `teachers`.

    The artefact returned for a table contains only metadata. As a table has no partition, the entry `partition` is a
    digest of the counts. As a table has no pool, the entry `pool` is the text `NO_POOL`.
    """
    if _first_bytes(path).startswith(b"PK") and not _is_plain_archive(path):
        source, votes = read_votes(path)
        if teachers not in (None, votes.teachers):
            found = plural(votes.teachers, "teacher")
            raise PatebenchError(
                f"{path} contains votes of {found}, but --teachers is {teachers}; leave --teachers out"
            )
        if classes not in (None, votes.classes):
            raise PatebenchError(
                f"{path} contains votes for {votes.classes} classes, but --classes is {classes}; leave --classes out"
            )
        return source, votes
    votes = _read_table(path, labels, classes)
    with located(path):
        check_table(votes, teachers, "--teachers ")
    facts = {"kind": "table", "partition": digest_counts(votes.counts), "pool": NO_POOL, "classes": votes.classes}
    content = hashlib.sha256(f"counts {votes.counts.shape}".encode())  # the same for a file of votes or of counts
    content.update(np.ascontiguousarray(votes.counts, dtype="<i8").tobytes())
    return Artefact(path, {}, facts, content.hexdigest()), votes


def report_sizes(source: Artefact, votes: Votes) -> None:
    """Print the numbers of teachers, queries and classes read from a table, so that a transposed table is noticed."""
    if source.meta["kind"] != "table":
        return
    what = "counts" if votes.matrix is None else "votes"
    teachers, queries = plural(votes.teachers, "teacher"), plural(votes.queries, "query")
    click.echo(f"{source.path}: {what} of {teachers} on {queries} among {plural(votes.classes, 'class')}", err=True)


def _read_table(path: Path, labels: bool, classes: int | None) -> Votes:
    """Return the votes in the table `path` (.npy, .npz or CSV).

    If `labels` is True, the table contains votes among `classes` classes. If it is False, the table contains counts.
    """
    if labels and classes is None:
        raise PatebenchError(
            f"{path}: the number of classes is missing, because a table of votes does not state it; add --classes"
        )
    if classes is not None and not labels:
        raise PatebenchError(
            f"{path}: --classes is only for votes, since counts have one column per class; leave --classes out, or add"
            " --votes"
        )
    is_array = _first_bytes(path).startswith(np.lib.format.MAGIC_PREFIX)
    table = _to_integers(path, _read_array(path) if is_array or _is_plain_archive(path) else _read_csv(path), classes)
    with located(path):
        # Votes are (teachers, queries), counts (queries, classes).
        if classes is not None:
            return Votes.of(table, classes)
        _check_totals(table)
        return Votes.from_counts(table)


def _read_csv(path: Path) -> NDArray[Any]:
    """Return the table in a CSV file, with or without header."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise PatebenchError(f"{path} is neither a .npy file nor CSV; save the array with numpy.save") from None
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    first = lines[0][1].split(",") if lines else []
    names = [cell for cell in first if not _is_number(cell)]
    if first and not first[0].strip("\"' "):
        raise PatebenchError(
            f"{path}: the first column has no name, so it seems to contain row numbers; remove this column from the"
            " file"
        )
    if names and len(names) < len(first):
        raise PatebenchError(
            f"{path}: line 1 contains {names[0][:40]!r} and numbers; write only column names or only numbers"
        )
    if len(lines) <= bool(names):
        raise PatebenchError(f"{path} contains no numbers; give a table of numbers, or save the array with numpy.save")
    try:
        return np.loadtxt([line for _, line in lines[bool(names) :]], delimiter=",", comments=None, ndmin=2)
    except ValueError as fault:
        words = str(fault).partition("; ")[0]
        for number, line in reversed(lines[bool(names) :]):  # NumPy does not count all lines
            cells = line.split(",")
            if len(cells) != len(first):
                words = f"line {number} contains {plural(len(cells), 'value')} instead of {len(first)}"
            for cell in cells:
                if not _is_number(cell):
                    words = f"line {number} contains {cell.strip()[:40]!r}"
        raise PatebenchError(
            f"{path} is not a table of numbers ({words}); write whole numbers separated by commas"
        ) from None


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
        raise ArtefactError(path, f"it cannot be read ({fault.strerror})", "give the path of a file of votes") from None
    if not magic:
        raise PatebenchError(f"{path} is empty; write a table of votes or counts to it")
    return magic


def _is_plain_archive(path: Path) -> bool:
    """Return True if the file is an .npz archive that contains votes and was not written by patebench."""
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        return META not in archive.namelist() and _ARRAY in archive.namelist()
    return False


def _read_array(path: Path) -> NDArray[Any]:
    """Return the array in a .npy file, or the votes in an .npz file."""
    try:
        with warnings.catch_warnings(action="ignore"), open(path, "rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
            array: NDArray[Any] = loaded if isinstance(loaded, np.ndarray) else loaded["votes"]
            if array is loaded and stream.read(1):
                raise ValueError("it has more bytes than its header implies")
    except Exception as fault:  # a damaged header is parsed as Python and may raise anything
        if "allow_pickle" in str(fault):
            line = f"{path} contains pickled objects, which are never loaded; save an array of integers"
            raise PatebenchError(line, code="pickled") from None
        words = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
        raise PatebenchError(f"{path} is truncated or damaged ({words}); write it again with numpy.save") from None
    return array


def _to_integers(path: Path, array: NDArray[Any], classes: int | None) -> NDArray[np.integer]:
    """Return `array`, read from the file `path`, as integers.

    `array` must contain votes among `classes` classes, or counts if `classes` is None. Raises PatebenchError for any
    other array.
    """
    fault, limit = "", classes or MOST_VOTES
    if array.ndim != 2:
        words = "save counts as (queries, classes), or votes as (teachers, queries) and give --classes"
        fault = f"an array of shape {array.shape} instead of a table; {words}"
    elif array.size == 0:
        fault = f"an array of shape {array.shape}, which has no entries; save votes or counts on at least one query"
    elif array.dtype.kind not in "iuf":
        fault = f"an array of dtype {array.dtype}; save integers"
    elif (wrong := ~((array >= 0) & (array < limit) & (array == np.trunc(array)))).any():  # NaN is wrong, too
        row, column = map(int, np.argwhere(wrong)[0])
        silent = ", as votes of your own file cannot abstain" if classes and array[row, column] == ABSTAINED else ""
        fault = (
            f"{array[row, column]} in row {row}, column {column} (counted from 0); use whole numbers from 0 to "
            f"{limit - 1}{silent}"
        )
    if fault:
        raise PatebenchError(f"{path} contains {fault}")
    return array.astype(np.int64) if array.dtype.kind == "f" else array


def _check_totals(counts: NDArray[np.integer]) -> None:
    totals = counts.sum(axis=1)
    if (other := np.flatnonzero(totals != totals[0])).size:
        query = int(other[0])
        raise PatebenchError(
            f"query 0 has {plural(totals[0], 'vote')}, but query {query} has {totals[query]:,}; correct the counts, or"
            " add --classes if each row contains the votes of a teacher ('patebench epsilon' also needs --votes)"
        )
