"""The stage `secure_sum`: an aggregator sums the shares that it got. The sum may be published."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from patebench.cli.command import stage_command
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, claim, read_arrays, write_arrays
from patebench.core.formats import PARTITION_FACTS, SHARE_SUM, SHARES
from patebench.core.seeds import Mode
from patebench.mechanisms.noise_shares import NoiseShares
from patebench.release.conditions import mechanism_of, refuse_second_release
from patebench.secure.shares import check_teachers, total

#: What all files of one release agree on; `neighbours` is stored only for teachers that vote by it.
SHARED = (
    *("pool", "classes", "mechanism", "parameters", "mode", "ensemble", "aggregators"),
    *("abstentions", *PARTITION_FACTS, "neighbours"),
)


def run(
    *,
    shares: Annotated[Sequence[Path], "The shares of a chunk of teachers; repeat for each."],
    out: Annotated[Path, "Where the sum goes, which may be published."],
) -> None:
    """Sum the shares that one aggregator got, from all teachers that sent some.

    Refuses to publish a sum with less than the promised noise, or of files that do not belong together.
    """
    held = [read_arrays(path, SHARES) for path in shares]
    check_agreement(held, (*SHARED, "aggregator"))
    first = held[0]
    teachers = np.concatenate([each["teachers"] for each in held])
    check_teachers(promised(first), teachers, first.meta["ensemble"], str(first.path))
    refuse_second_release(out, Mode(first.meta["mode"]))
    sums = total((each["shares"].sum(axis=0, dtype=np.uint64) for each in held), first["shares"].shape[1:])
    meta = {**shared(first), "aggregator": first.meta["aggregator"]}
    sessions = {str(each["teachers"].min()): each.meta["session"] for each in held}
    arrays = {"sum": sums, "teachers": np.sort(teachers), **asked(first)}
    with _once(held, out):
        write_arrays(out, SHARE_SUM, arrays, {**meta, "sessions": dict(sorted(sessions.items()))})


@contextmanager
def _once(shares: Sequence[Artefact], out: Path) -> Iterator[None]:
    """Let the shares of a cut go into one published sum only: two with other teachers differ by votes with less noise.

    Each cut is marked beside its shares before the sum is written, by the one process that can create the mark. A
    killed process leaves its marks: nobody knows whether its sum was seen. Shares from a seed hide nothing.
    """
    marks: list[Path] = []
    try:
        for share in (each for each in shares if each.meta["mode"] == Mode.RELEASE):
            name = f".{share.meta['session']}-{share.meta['aggregator']}.summed"
            mark = share.path.resolve().with_name(name)
            if not claim(mark):
                raise ArtefactError(
                    share.path,
                    "its cut went into a sum already, and a second one of other teachers would take noise off their "
                    "votes",
                    "publish the first sum, or let all teachers cut their shares again and pay again",
                )
            marks.append(mark)
        yield
    except BaseException:
        if not out.exists():
            for mark in marks:
                mark.unlink(missing_ok=True)
        raise


def check_agreement(found: Sequence[Artefact], entries: Sequence[str]) -> None:
    """Refuse files that say different things, or are of different queries."""
    for each in found[1:]:
        for entry in entries:
            each.require(entry, found[0].meta.get(entry), str(found[0].path))
        if not np.array_equal(each.arrays.get("queries"), found[0].arrays.get("queries")):  # type: ignore[arg-type]
            raise ArtefactError(each.path, f"it is of other queries than {found[0].path}", "give files of one release")


def shared(file: Artefact) -> dict[str, Any]:
    """Return what a file of shares or sums stores of its release."""
    return {entry: file.meta[entry] for entry in SHARED if entry in file.meta}


def asked(file: Artefact) -> dict[str, NDArray[Any]]:
    """Return the queries of a file that were selected beforehand; nothing for the whole pool."""
    return {name: file[name] for name in ("queries",) if name in file.arrays}


def promised(file: Artefact) -> NoiseShares:
    """Return the mechanism whose noise a file of shares or sums was promised."""
    mechanism = mechanism_of(file.meta)
    assert isinstance(mechanism, NoiseShares)
    return mechanism


command = stage_command(run)
