"""Stage `secure_sum`: sum the shares that one aggregator received; the sum may be published."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from patebench.cli.command import OutputFile, stage_command
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, claim, read_arrays, write_arrays
from patebench.core.formats import OF_SHARES, SHARE_SUM, SHARES, VOTING_FACTS
from patebench.core.seeds import Mode
from patebench.mechanisms.base import mechanism_of
from patebench.mechanisms.noise_shares import NoiseShares
from patebench.release.conditions import refuse_second_release
from patebench.secure.shares import check_teachers, sum_shares

#: Metadata that is equal in all files of one release. Only teachers that vote by public features store VOTING_FACTS.
_SHARED = (*OF_SHARES, *VOTING_FACTS)


def run(
    *,
    shares: Annotated[Sequence[Path], "Shares of a chunk of teachers; repeat for each chunk."],
    out: Annotated[OutputFile, "Output file with the sum, which may be published."],
) -> None:
    """Sum the shares that one aggregator received from the teachers.

    All files must belong to one release, and enough teachers must have sent shares for the stated noise.
    """
    held = [read_arrays(path, SHARES) for path in shares]
    check_agreement(held, "aggregator")
    first = held[0]
    teachers = np.concatenate([part["teachers"] for part in held])
    check_teachers(stated_mechanism(first), teachers, first.meta["ensemble"], str(first.path))
    refuse_second_release(out, Mode(first.meta["mode"]))
    sums = sum_shares(part["shares"].sum(axis=0, dtype=np.uint64) for part in held)
    meta = {**shared_facts(first), "aggregator": first.meta["aggregator"]}
    sessions = {str(part["teachers"].min()): part.meta["session"] for part in held}
    arrays = {"sum": sums, "teachers": np.sort(teachers), **query_arrays(first)}
    with _mark_summed(held, out):
        write_arrays(out, SHARE_SUM, arrays, {**meta, "sessions": dict(sorted(sessions.items()))})


@contextmanager
def _mark_summed(shares: Sequence[Artefact], out: Path) -> Iterator[None]:
    """Mark the files of secret `shares` as summed while the `with` block writes their sum to `out`.

    Only shares of a release are marked. Raise ArtefactError if a file is already marked, because a second sum, over
    other teachers, could reveal votes with less noise. If the block fails before `out` exists, the marks are removed.
    """
    # Only one process can create a mark. The marks of a killed process remain, because its sum may have been seen.
    marks: list[Path] = []
    try:
        for share in (part for part in shares if part.meta["mode"] == Mode.RELEASE):
            name = f".{share.meta['session']}-{share.meta['aggregator']}.summed"
            mark = share.path.resolve().with_name(name)
            if not claim(mark):
                raise ArtefactError(
                    share.path,
                    "its shares were already summed, and a second sum could reveal votes with less noise",
                    "publish the first sum, or let all teachers make new shares (which spends more ε)",
                )
            marks.append(mark)
        yield
    except BaseException:
        if not out.exists():
            for mark in marks:
                mark.unlink(missing_ok=True)
        raise


def check_agreement(files: Sequence[Artefact], entry: str) -> None:
    """Raise ArtefactError if `files` (shares or sums) are of several releases, or differ in the metadata `entry`."""
    first = files[0]
    for file in files[1:]:
        for name in (*_SHARED, entry):
            file.require(name, first.meta.get(name), str(first.path))
        if not np.array_equal(file.arrays.get("queries"), first.arrays.get("queries")):  # type: ignore[arg-type]
            raise ArtefactError(
                file.path, f"its queries differ from those of {first.path}", "give files of the same release"
            )


def shared_facts(file: Artefact) -> dict[str, Any]:
    """Return the metadata of `file` that all files of one release share, such as the mechanism."""
    return {entry: file.meta[entry] for entry in _SHARED if entry in file.meta}


def query_arrays(file: Artefact) -> dict[str, NDArray[Any]]:
    """Return {"queries": positions in the pool} for the queries of `file`; {} if these are the whole pool."""
    return {"queries": file["queries"]} if "queries" in file.arrays else {}


def stated_mechanism(file: Artefact) -> NoiseShares:
    """Return the mechanism that `file`, a file of shares or sums, states."""
    mechanism = mechanism_of(file.meta)
    assert isinstance(mechanism, NoiseShares)
    return mechanism


command = stage_command(run)
