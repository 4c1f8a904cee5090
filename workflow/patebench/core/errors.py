"""Errors for users: one line that states what is wrong, where, and what to do about it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class PatebenchError(Exception):
    """Error that the user can fix. Commands print the message as one line and exit with status 2.

    Parameters
    ----------
    message : what is wrong, what was expected and what to do; line breaks become spaces
    code : stable identifier of the kind of fault, such as "unknown-name"; programs and tests match it
    where : the file, option, argument or configuration key with the fault; the message starts with it
    """

    def __init__(self, message: str, *, code: str = "invalid", where: Path | str = "") -> None:
        self.code, self.where = code, str(where)
        line = message if message.startswith(self.where) else f"{self.where}: {message}"
        super().__init__(" ".join(line.split()))


class FaultsError(PatebenchError):
    """Several errors found together, in `faults`. The message is that of the first; commands print a line for each."""

    def __init__(self, faults: Sequence[PatebenchError]) -> None:
        first = faults[0]
        super().__init__(str(first), code=first.code, where=first.where)
        self.faults = [single for fault in faults for single in separate(fault)]


def separate(fault: PatebenchError) -> list[PatebenchError]:
    """Return the single errors in `fault` if it is a FaultsError, else a list with `fault` alone."""
    return fault.faults if isinstance(fault, FaultsError) else [fault]


def call_all(calls: Iterable[Callable[[], T]]) -> list[T]:
    """Call every function in `calls` and return the results in order.

    All functions are called even if some raise PatebenchError. If several do, the errors are raised as one FaultsError.
    """
    results: list[T] = []
    faults: list[PatebenchError] = []
    for call in calls:
        try:
            results.append(call())
        except PatebenchError as fault:
            faults.append(fault)
    if faults:
        raise FaultsError(faults) if len(faults) > 1 else faults[0]
    return results


def in_one_line(fault: BaseException) -> str:
    """Return the message of `fault` as one line; for exceptions other than PatebenchError, the type comes first."""
    words = str(fault) if isinstance(fault, PatebenchError) else f"{type(fault).__name__}: {fault}"
    return " ".join(words.split())


class ArtefactError(PatebenchError):
    """Error about a file that is missing, damaged, or not the file that the stage needs.

    The message contains the path, `fault` and the advice `fix`, by default to recreate or replace the file.
    """

    def __init__(self, path: Path | str, fault: str, fix: str | None = None, *, code: str = "artefact") -> None:
        super().__init__(f"{path}: {fault}; {fix or _fix(Path(path))}.", code=code, where=path)
        self.path, self.fault, self.has_own_fix = Path(path), fault, fix is not None


@contextmanager
def located(where: Path | str) -> Iterator[None]:
    """Add the prefix `where` (the faulty file, option or key) to the message of a PatebenchError from the block."""
    try:
        yield
    except PatebenchError as fault:
        raise PatebenchError(f"{where}: {fault}", code=fault.code, where=where) from None


def _fix(path: Path) -> str:
    """Return advice on a faulty file: recreate it if patebench wrote it, otherwise replace it."""
    if is_own_file(path):
        return "delete the file and run snakemake again to recreate it"
    return (
        "patebench did not write this file, or its first bytes are damaged: give the right file, or move this one"
        " away and run snakemake again"
    )


def is_own_file(path: Path) -> bool:
    """Return True if patebench wrote the file `path`, judging by the first bytes.

    An empty or unreadable file counts as written by patebench.
    """
    try:
        with open(path, "rb") as stream:
            head = stream.read(64)
    except OSError:
        return True
    archive = head.startswith(b"PK\x03\x04") and head[30:39] == b"meta.json"
    return not head or archive or head.startswith(b'{\n "kind": "')
