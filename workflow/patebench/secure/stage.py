"""The stages of secure aggregation, one for each kind of party; none reads the files of another.

secure-share   a chunk of teachers     its votes             → one file of shares for each aggregator
secure-sum     one aggregator          the shares it got     → its sum
secure-open    anybody                 all published sums    → noisy counts and labels
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core import files, formats
from patebench.core.entropy import Draws, uniform_words
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact
from patebench.core.seeds import Mode
from patebench.mechanisms.base import make, plain
from patebench.mechanisms.distributed_gnmax import DistributedGNMax, plurality
from patebench.mechanisms.stage import once
from patebench.secure import MECHANISM, shares

#: What all files of one release agree on.
_SHARED = ("pool", "classes", "mechanism", "parameters", "mode", "ensemble", "aggregators")


@dataclass(frozen=True)
class Party:
    """What every party knows: the mechanism, how many teachers and aggregators there are, and where it draws from."""

    mechanism: DistributedGNMax
    teachers: int
    draws: Draws

    @classmethod
    def of(cls, mechanism: str, parameters: Mapping[str, float], teachers: int, draws: Draws) -> "Party":
        made = make(mechanism, parameters)
        if not isinstance(made, DistributedGNMax):
            raise PatebenchError(f"the mechanism '{mechanism}' has no secure path; use {MECHANISM}")
        made.needed(teachers)
        return cls(made, teachers, draws)

    def meta(self, aggregators: int) -> dict[str, Any]:
        """What files of shares say of the release that they belong to."""
        return {
            "mechanism": MECHANISM,
            "parameters": plain(self.mechanism.parameters()),
            "mode": str(self.draws.mode),
            "ensemble": self.teachers,
            "aggregators": aggregators,
        }

    def share(self, teacher: int, votes: NDArray[np.integer], classes: int, aggregators: int) -> list[shares.Words]:
        """One teacher's votes as shares, one for each aggregator.

        The masks come first and from a stream of their own: nothing that all aggregators but the last get depends on a
        vote. The noise is what the plain path draws for this teacher.
        """
        shape = len(votes), classes
        masks = shares.masks(self.draws.source("masks").spawn(self.teachers)[teacher], aggregators, shape)
        noise = self.mechanism.share(self.teachers, shape, self.draws.source().spawn(self.teachers)[teacher])
        return [*masks, shares.closing(masks, shares.one_hot(votes, classes) + noise)]


def share(
    *,
    chunk: Path,
    mechanism: str,
    parameters: Mapping[str, float],
    teachers: int,
    release: bool,
    seed: int | None,
    stream: str | None,
    out: Sequence[Path],
) -> None:
    """Share the votes of a chunk's teachers among as many aggregators as there are files `out`, in their order."""
    if len(out) < 2:
        raise PatebenchError("one aggregator alone would see every vote; give at least two files --out")
    party = Party.of(mechanism, parameters, teachers, Draws.of(release, seed, stream))
    source = files.read_arrays(chunk, formats.CHUNK)
    numbers, classes = source["teachers"], int(source.meta["classes"])
    if numbers.max() >= teachers:
        raise ArtefactError(chunk, f"it holds teacher {numbers.max()}, and there are {teachers}", "give their number")
    cut = [
        party.share(int(number), votes, classes, len(out))
        for number, votes in zip(numbers, source["votes"], strict=True)
    ]
    meta = {"pool": source.meta["pool"], "classes": classes, **party.meta(len(out)), "session": _session(party)}
    for i, (path, held) in enumerate(zip(out, zip(*cut, strict=True), strict=True)):
        arrays = {"shares": np.stack(held), "teachers": np.asarray(numbers, dtype=np.int64)}
        files.write_arrays(path, formats.SHARES, arrays, {**meta, "aggregator": i + 1})


def add(*, share_files: Sequence[Path], out: Path) -> None:
    """Sum what one aggregator got, from all teachers that sent something.

    Refuses to publish a sum with less than the promised noise, or of files that do not belong together.
    """
    held = [files.read_arrays(path, formats.SHARES) for path in share_files]
    _agree(held, (*_SHARED, "aggregator"))
    first = held[0]
    teachers = np.concatenate([each["teachers"] for each in held])
    _check_teachers(first, teachers)
    _once(out, first)
    sums = shares.total((each["shares"].sum(axis=0, dtype=np.uint64) for each in held), first["shares"].shape[1:])
    meta = {entry: first.meta[entry] for entry in (*_SHARED, "aggregator")}
    sessions = {str(each["teachers"].min()): each.meta["session"] for each in held}
    arrays = {"sum": sums, "teachers": np.sort(teachers)}
    files.write_arrays(out, formats.SHARE_SUM, arrays, {**meta, "sessions": dict(sorted(sessions.items()))})


def open_sums(*, sum_files: Sequence[Path], labels: Path, counts: Path) -> None:
    """Add the published sums of all aggregators up to noisy counts, and label each query by the largest."""
    sums = [files.read_arrays(path, formats.SHARE_SUM) for path in sum_files]
    _agree(sums, (*_SHARED, "sessions"))
    first = sums[0]
    for each in sums[1:]:
        if not np.array_equal(each["teachers"], first["teachers"]):
            raise ArtefactError(each.path, f"it sums shares of other teachers than {first.path}", _AGAIN)
    _check_aggregators(sums)
    _check_teachers(first, first["teachers"])
    for out in (labels, counts):
        _once(out, first)
    noisy = shares.opened((each["sum"] for each in sums), first["sum"].shape)
    meta = {entry: first.meta[entry] for entry in _SHARED}
    files.write_arrays(counts, formats.NOISY_COUNTS, {"counts": noisy, "teachers": first["teachers"]}, meta)
    # Nobody here has seen the votes, so nobody can say which they were.
    files.write_arrays(labels, formats.LABELS, {"labels": plurality(noisy)}, {**meta, "votes": None})


_AGAIN = "let all aggregators sum the shares of the same teachers"


def _session(party: Party) -> str:
    """A name for this cut of the shares: shares of two cuts do not add up to anything, and must not be mixed."""
    return f"{int(uniform_words(party.draws.source('session'), 1)[0]):016x}"


def _agree(found: Sequence[Artefact], entries: Sequence[str]) -> None:
    for each in found[1:]:
        for entry in entries:
            each.require(entry, found[0].meta[entry], str(found[0].path))


def _check_aggregators(sums: Sequence[Artefact]) -> None:
    given, needed = sorted(each.meta["aggregator"] for each in sums), sums[0].meta["aggregators"]
    if given != list(range(1, needed + 1)):
        raise PatebenchError(f"sums of the aggregators {given} were given, and one of each of {needed} is needed")


def _check_teachers(first: Artefact, teachers: NDArray[np.integer]) -> None:
    """Every teacher at most once, and enough of them for the noise that was promised."""
    meta = first.meta
    if len(set(teachers.tolist())) < len(teachers):
        raise PatebenchError(f"shares of one teacher were given twice, among them {first.path}; give each file once")
    mechanism = make(meta["mechanism"], {name: float(value) for name, value in meta["parameters"].items()})
    assert isinstance(mechanism, DistributedGNMax)
    if len(teachers) < (needed := mechanism.needed(meta["ensemble"])):
        raise PatebenchError(
            f"only {len(teachers)} of {meta['ensemble']} teachers sent shares, and the noise of {needed} was promised; "
            "wait for more, or begin again with a larger tolerance"
        )


def _once(out: Path, of: Artefact) -> None:
    once(out, Mode(of.meta["mode"]))
