"""Additive secret sharing modulo 2⁶⁴: all shares add up to a value, but any set without one of them leaks nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import ABSTAINED
from patebench.core.entropy import Draws, uniform_words
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import json_parameters, make_mechanism
from patebench.mechanisms.noise_shares import NoiseShares

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]


def draw_masks(source: Source, aggregators: int, shape: tuple[int, ...]) -> list[Words]:
    """Draw uniform shares of `shape` for all aggregators except the last; they do not depend on the shared value."""
    return [uniform_words(source, shape) for _ in range(aggregators - 1)]


def closing_share(drawn: list[Words], values: Integers) -> Words:
    """Return the last aggregator's share: `values` minus the sum of the shares `drawn`, modulo 2⁶⁴.

    It is uniform to anyone who lacks at least one of the other shares.
    """
    return values.astype(np.uint64) - sum_shares(drawn, values.shape)


def sum_shares(words: Iterable[Words], shape: tuple[int, ...]) -> Words:
    """Return the sum of shares of this `shape`, modulo 2⁶⁴."""
    result = np.zeros(shape, dtype=np.uint64)
    for share in words:
        result += share
    return result


def open_sums(sums: Iterable[Words], shape: tuple[int, ...]) -> Integers:
    """Reconstruct the values from all aggregators' sums, as signed integers."""
    return sum_shares(sums, shape).astype(np.int64)


def encode_votes(votes: NDArray[np.integer], classes: int) -> Integers:
    """Encode one teacher's votes (queries,) as counts (queries × classes), with zeros where it abstains."""
    result = np.zeros((len(votes), classes), dtype=np.int64)
    (voted,) = np.nonzero(votes != ABSTAINED)
    result[voted, votes[voted]] = 1
    return result


@dataclass(frozen=True)
class Party:
    """Settings common to all parties of a secure release: mechanism, number of teachers and source of random draws."""

    name: str
    mechanism: NoiseShares
    teachers: int
    draws: Draws

    @classmethod
    def of(cls, mechanism: str, parameters: Mapping[str, float], teachers: int, draws: Draws) -> "Party":
        noise_shares = make_mechanism(mechanism, parameters)
        if not isinstance(noise_shares, NoiseShares):
            raise PatebenchError(
                f"the mechanism '{mechanism}' does not work with secure aggregation; use "
                f"{' or '.join(secure_mechanisms())}"
            )
        noise_shares.needed(teachers)
        return cls(mechanism, noise_shares, teachers, draws)

    def meta(self, aggregators: int) -> dict[str, Any]:
        """Return the metadata that every file of shares of this release stores."""
        return {
            "mechanism": self.name,
            "parameters": json_parameters(self.mechanism.parameters()),
            "mode": str(self.draws.mode),
            "ensemble": self.teachers,
            "aggregators": aggregators,
        }

    def cut(
        self, teachers: NDArray[np.integer], votes: NDArray[np.integer], classes: int, aggregators: int
    ) -> list[Words]:
        """Split `votes` (teachers × queries) into shares: one array (teachers × queries × classes) per aggregator.

        `teachers` (teachers,) are the teachers' numbers in the ensemble. The votes that count depend only on a
        teacher's row and number, not on its chunk.
        """
        masks, noise = (self.draws.source(*names).spawn(self.teachers) for names in (("masks",), ()))
        rows = zip(teachers.tolist(), self.mechanism.counted(votes, teachers), strict=True)
        by_teacher = [self._share(masks[number], noise[number], row, classes, aggregators) for number, row in rows]
        return [np.stack(held) for held in zip(*by_teacher, strict=True)]

    def _share(
        self, for_masks: Source, for_noise: Source, counted: NDArray[np.integer], classes: int, aggregators: int
    ) -> list[Words]:
        """Split one teacher's counted votes into shares, one for each aggregator.

        The masks are drawn first and from their own stream, so the shares of all aggregators except the last do not
        depend on a vote. The teacher's noise is the same as without secure aggregation. Noise is also added where the
        teacher abstains, since a cell without noise would reveal the abstention.
        """
        shape = len(counted), classes
        masks = draw_masks(for_masks, aggregators, shape)
        noise = self.mechanism.share(self.teachers, shape, for_noise)
        return [*masks, closing_share(masks, encode_votes(counted, classes) + noise)]

    def session(self) -> str:
        """Return a random identifier of this set of shares (16 hexadecimal digits), so that sets are never mixed."""
        return f"{int(uniform_words(self.draws.source('session'), 1)[0]):016x}"


def secure_mechanisms(*, abstentions: bool = False) -> list[str]:
    """Return the names of the mechanisms that support secure aggregation; with `abstentions`, abstentions too."""
    kinds = {name: MECHANISMS.load(name) for name in MECHANISMS}
    return [name for name, kind in kinds.items() if kind.secure and (kind.abstentions or not abstentions)]


def check_teachers(mechanism: NoiseShares, teachers: NDArray[np.integer], ensemble: int, where: str) -> None:
    """Raise PatebenchError for duplicate `teachers`, or if too few of the `ensemble` teachers add the stated noise.

    `teachers` (teachers,) are the numbers of the teachers that sent shares. The message on duplicates names the file
    `where`.
    """
    if len(set(teachers.tolist())) < len(teachers):
        raise PatebenchError(
            f"two of the given files contain shares of the same teacher, such as {where}; give each file once"
        )
    if len(teachers) < (needed := mechanism.needed(ensemble)):
        raise PatebenchError(
            f"only {len(teachers)} of {ensemble} teachers sent shares, but the stated noise needs {needed}; "
            "wait for more, or start again with a mechanism that tolerates more missing teachers"
        )
