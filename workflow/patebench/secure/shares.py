"""Additive secret sharing modulo 2⁶⁴: words that add up to a value, any but one of which are independent of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import SILENT
from patebench.core.entropy import Draws, uniform_words
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import make_mechanism, plain
from patebench.mechanisms.noise_shares import NoiseShares

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]


def draw_masks(source: Source, aggregators: int, shape: tuple[int, ...]) -> list[Words]:
    """The shares of all aggregators but the last: uniform, and drawn without any value at hand."""
    return [uniform_words(source, shape) for _ in range(aggregators - 1)]


def closing(drawn: list[Words], values: Integers) -> Words:
    """The last aggregator's share, which makes the sum right; uniform too, given all but one of the others."""
    return values.astype(np.uint64) - total(drawn, values.shape)


def total(words: Iterable[Words], shape: tuple[int, ...]) -> Words:
    """The sum modulo 2⁶⁴."""
    result = np.zeros(shape, dtype=np.uint64)
    for each in words:
        result += each
    return result


def opened(sums: Iterable[Words], shape: tuple[int, ...]) -> Integers:
    """The values that all aggregators' sums together stand for, as signed integers."""
    return total(sums, shape).astype(np.int64)


def one_hot(votes: NDArray[np.integer], classes: int) -> Integers:
    """A teacher's votes (queries) as counts of its own, queries × classes; nothing where it keeps silent."""
    result = np.zeros((len(votes), classes), dtype=np.int64)
    (given,) = np.nonzero(votes != SILENT)
    result[given, votes[given]] = 1
    return result


@dataclass(frozen=True)
class Party:
    """What every party knows: the mechanism, how many teachers and aggregators there are, and where it draws from."""

    name: str
    mechanism: NoiseShares
    teachers: int
    draws: Draws

    @classmethod
    def of(cls, mechanism: str, parameters: Mapping[str, float], teachers: int, draws: Draws) -> "Party":
        made = make_mechanism(mechanism, parameters)
        if not isinstance(made, NoiseShares):
            raise PatebenchError(f"the mechanism '{mechanism}' has no secure path; use {', '.join(secure())}")
        made.needed(teachers)
        return cls(mechanism, made, teachers, draws)

    def meta(self, aggregators: int) -> dict[str, Any]:
        """What files of shares say of the release that they belong to."""
        return {
            "mechanism": self.name,
            "parameters": plain(self.mechanism.parameters()),
            "mode": str(self.draws.mode),
            "ensemble": self.teachers,
            "aggregators": aggregators,
        }

    def cut(
        self, teachers: NDArray[np.integer], votes: NDArray[np.integer], classes: int, aggregators: int
    ) -> list[Words]:
        """The votes of these teachers (teachers × queries) as shares, teachers × queries × classes for each aggregator.

        Which votes count follows from a teacher's row and its number in the ensemble, wherever its chunk begins.
        """
        masks, noise = (self.draws.source(*names).spawn(self.teachers) for names in (("masks",), ()))
        rows = zip(teachers.tolist(), self.mechanism.counted(votes, teachers), strict=True)
        each = [self._share(masks[number], noise[number], row, classes, aggregators) for number, row in rows]
        return [np.stack(held) for held in zip(*each, strict=True)]

    def _share(
        self, for_masks: Source, for_noise: Source, counted: NDArray[np.integer], classes: int, aggregators: int
    ) -> list[Words]:
        """One teacher's votes that count as shares, one for each aggregator.

        The masks come first and from a stream of their own: nothing that all aggregators but the last get depends on a
        vote. The noise is what the plain path draws for this teacher, and is added where it keeps silent too: a cell
        without noise would tell that it does.
        """
        shape = len(counted), classes
        masks = draw_masks(for_masks, aggregators, shape)
        noise = self.mechanism.share(self.teachers, shape, for_noise)
        return [*masks, closing(masks, one_hot(counted, classes) + noise)]

    def session(self) -> str:
        """A name for this cut of the shares: shares of two cuts do not add up to anything, and must not be mixed."""
        return f"{int(uniform_words(self.draws.source('session'), 1)[0]):016x}"


def secure(*, abstentions: bool = False) -> list[str]:
    """The mechanisms that have a secure path; those whose teachers may keep silent."""
    kinds = {name: MECHANISMS.load(name) for name in MECHANISMS}
    return [name for name, kind in kinds.items() if kind.secure and (kind.abstentions or not abstentions)]


def check_teachers(mechanism: NoiseShares, teachers: NDArray[np.integer], ensemble: int, where: str) -> None:
    """Every teacher at most once, and enough of them for the noise that was promised; `where` names a file of them."""
    if len(set(teachers.tolist())) < len(teachers):
        raise PatebenchError(f"shares of one teacher were given twice, among them {where}; give each file once")
    if len(teachers) < (needed := mechanism.needed(ensemble)):
        raise PatebenchError(
            f"only {len(teachers)} of {ensemble} teachers sent shares, and the noise of {needed} was promised; "
            "wait for more, or begin again with a larger tolerance"
        )
