"""The stage `secure_sum`: an aggregator sums the shares that it got. The sum may be published."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, read_arrays, write_arrays
from patebench.core.formats import SHARE_SUM, SHARES
from patebench.core.seeds import Mode
from patebench.mechanisms.distributed_gnmax import DistributedGNMax
from patebench.secure.party import check_teachers
from patebench.secure.shares import total
from patebench.stages.command import file_option, stage_command
from patebench.stages.releases import mechanism_of, refuse_second_release

#: What all files of one release agree on.
SHARED = ("pool", "classes", "mechanism", "parameters", "mode", "ensemble", "aggregators")


def run(*, shares: Sequence[Path], out: Path) -> None:
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
    meta = {entry: first.meta[entry] for entry in (*SHARED, "aggregator")}
    sessions = {str(each["teachers"].min()): each.meta["session"] for each in held}
    arrays = {"sum": sums, "teachers": np.sort(teachers)}
    with _once(held):
        write_arrays(out, SHARE_SUM, arrays, {**meta, "sessions": dict(sorted(sessions.items()))})


@contextmanager
def _once(shares: Sequence[Artefact]) -> Iterator[None]:
    """Let the shares of a cut go into one published sum only: two with other teachers differ by votes with less noise.

    A cut that was summed is marked beside its shares before the sum is written. Shares from a seed hide nothing.
    """
    released = [each for each in shares if each.meta["mode"] == Mode.RELEASE]
    marks = [each.path.with_name(f".{each.meta['session']}-{each.meta['aggregator']}.summed") for each in released]
    for share, mark in zip(released, marks, strict=True):
        if mark.exists():
            raise ArtefactError(
                share.path,
                "its cut went into a sum already, and a second one of other teachers would take noise off their votes",
                "publish the first sum, or let all teachers cut their shares anew and pay again",
            )
    for mark in marks:
        mark.touch()
    try:
        yield
    except BaseException:
        for mark in marks:
            mark.unlink(missing_ok=True)
        raise


def check_agreement(found: Sequence[Artefact], entries: Sequence[str]) -> None:
    """Refuse files that say different things."""
    for each in found[1:]:
        for entry in entries:
            each.require(entry, found[0].meta[entry], str(found[0].path))


def promised(file: Artefact) -> DistributedGNMax:
    """The mechanism whose noise a file of shares or sums was promised."""
    mechanism = mechanism_of(file.meta)
    assert isinstance(mechanism, DistributedGNMax)
    return mechanism


command = stage_command(
    run,
    file_option("shares", "The shares of a chunk of teachers; repeat for each.", several=True),
    file_option("out", "Where the sum goes, which may be published."),
)
