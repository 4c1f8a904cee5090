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
    """Draw `aggregators` − 1 arrays of `shape`, uniform modulo 2⁶⁴: the shares of all aggregators except the last."""
    return [uniform_words(source, shape) for _ in range(aggregators - 1)]


def closing_share(drawn: list[Words], values: Integers) -> Words:
    """Return the last aggregator's share of `values`: `values` minus the sum of the other shares `drawn`, modulo 2⁶⁴.

    To anyone who does not know one share in `drawn`, the returned share is uniform and leaks nothing about `values`.
    """
    return values.astype(np.uint64) - sum_shares(drawn, values.shape)


def sum_shares(words: Iterable[Words], shape: tuple[int, ...]) -> Words:
    """Return the elementwise sum modulo 2⁶⁴ of the arrays `words`, each of shape `shape`."""
    result = np.zeros(shape, dtype=np.uint64)
    for share in words:
        result += share
    return result


def open_sums(sums: Iterable[Words], shape: tuple[int, ...]) -> Integers:
    """Return the noisy counts of shape `shape`, as signed integers: the sum of all aggregators' published `sums`."""
    return sum_shares(sums, shape).astype(np.int64)


def encode_votes(votes: NDArray[np.integer], classes: int) -> Integers:
    """Return one teacher's `votes` (queries,) in one-hot form (queries × classes); the row is 0 where it abstains."""
    result = np.zeros((len(votes), classes), dtype=np.int64)
    (voted,) = np.nonzero(votes != ABSTAINED)
    result[voted, votes[voted]] = 1
    return result


@dataclass(frozen=True)
class Party:
    """Settings shared by all parties of a secure release: mechanism, its `name`, number of teachers, random `draws`."""

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
        """Return the metadata, stored in every file of shares, of this release to `aggregators` aggregators."""
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
        """Return shares of noisy one-hot votes: one array (teachers × queries × classes) for each of `aggregators`.

        `votes` (teachers × queries) are the votes of the ensemble members with the numbers `teachers` (teachers,).
        A teacher's counted votes depend only on its row and its number, not on which other teachers are in `votes`.
        """
        masks, noise = (self.draws.source(*names).spawn(self.teachers) for names in (("masks",), ()))
        rows = zip(teachers.tolist(), self.mechanism.counted(votes, teachers), strict=True)
        by_teacher = [self._share(masks[number], noise[number], row, classes, aggregators) for number, row in rows]
        return [np.stack(held) for held in zip(*by_teacher, strict=True)]

    def _share(
        self, for_masks: Source, for_noise: Source, counted: NDArray[np.integer], classes: int, aggregators: int
    ) -> list[Words]:
        """Split one teacher's noisy votes into shares, one for each aggregator."""
        shape = len(counted), classes
        # All shares except the last come from `for_masks` and do not depend on votes.
        masks = draw_masks(for_masks, aggregators, shape)
        # The same noise share as without secure aggregation; abstentions get it too, which hides them.
        noise = self.mechanism.share(self.teachers, shape, for_noise)
        return [*masks, closing_share(masks, encode_votes(counted, classes) + noise)]

    def session(self) -> str:
        """Return a random identifier, 16 hexadecimal digits, of a set of shares, so that sets are not mixed."""
        return f"{int(uniform_words(self.draws.source('session'), 1)[0]):016x}"


def secure_mechanisms(*, abstentions: bool = False) -> list[str]:
    """Return the names of mechanisms for secure aggregation; with `abstentions`, only those that allow abstentions."""
    kinds = {name: MECHANISMS.load(name) for name in MECHANISMS}
    return [name for name, kind in kinds.items() if kind.secure and (kind.abstentions or not abstentions)]


def check_teachers(mechanism: NoiseShares, teachers: NDArray[np.integer], ensemble: int, where: str) -> None:
    """Raise PatebenchError if `teachers` has duplicates, or fewer entries than the stated noise of `mechanism` needs.

    `teachers` are the numbers of the teachers that sent shares, and `ensemble` is the number of all teachers. The
    message on duplicates names the file `where`.
    """
    if len(set(teachers.tolist())) < len(teachers):
        raise PatebenchError(
            f"two of the given files contain shares of the same teacher, such as {where}; give each file once"
        )
    if len(teachers) < (needed := mechanism.needed(ensemble)):
        raise PatebenchError(
            f"only {len(teachers)} of {ensemble} teachers sent shares, but the stated noise needs {needed}; "
            "wait for more, or start again with a larger tolerance"
        )
