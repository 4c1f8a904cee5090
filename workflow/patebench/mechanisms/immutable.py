"""The immutable noisy argmax of NZC (Sun et al. 2020, *Differentially private deep learning with smooth sensitivity*).

A constant c is added to the largest count before the noise, so that the noise rarely changes the answer. The paper
claims that the privacy cost of an answer is almost 0. This module states the claim and also computes the true cost.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import conversion, exact_accountant, independent, rdp
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated
from patebench.accounting.logspace import Array, logsumexp
from patebench.accounting.votes import Counts, Votes, gaps
from patebench.core.bound import Conversion, Kind
from patebench.core.seeds import Source
from patebench.mechanisms.base import NO_ANSWER, Labels, Mechanism, Shown, parameter
from patebench.mechanisms.noise import Gaussian, Laplace, Noise
from patebench.mechanisms.quadrature import log_argmax_probabilities

#: Ratio of the constant c to the noise scale above which the noise is negligible: every class except the plurality has
#: a probability below exp(−10¹²), which is 0 in double precision.
_CERTAIN = 1e12

#: Source of a bound with ε = ∞.
ENDLESS = "an outcome is certain for some votes and impossible for their neighbours, so no finite ε holds"


class ImmutableArgmax(Mechanism):
    """Immutable argmax: the argmax of the counts plus noise, after the constant c is added to the largest count.

    With `distance` > 0, a query is answered only if its two largest counts differ by at least this distance. If several
    classes have the largest count, one of them, chosen at random, gets the constant. A very large c releases the
    plurality with certainty: in double precision, 1e100 + Lap(1e10) is exactly 1e100.
    """

    # Fields of the subclasses, which define the noise parameter between them.
    c: float
    distance: float

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """Return the noise of each count."""

    @abstractmethod
    def claimed(self) -> list[Accountant]:
        """Return accountants of the ε that the paper claims, which does not depend on `c` or `distance`."""

    @abstractmethod
    def worst_case(self) -> Accountant:
        """Return the accountant of a proven worst-case bound, which is ε = ∞ if `certain` is True.

        One vote changes two counts by 1 and, if the plurality changes, moves the constant from one class to another. So
        the sensitivity of the counts with the constant is at most 2(c + 1) in L1 and √2·(c + 1) in L2. The paper states
        c + 1 for L1.
        """

    @property
    def noise_is_negligible(self) -> bool:
        """Return True if the constant c is so large compared with the noise that the plurality always wins."""
        return self.c > _CERTAIN * self.noise.scale

    @property
    def certain(self) -> bool:
        """Return True if ε is ∞, because an outcome is certain for some votes and impossible for their neighbours.

        This is the case in two situations. If the constant c is large compared with the noise, the plurality is always
        released, and one vote may change it. If `distance` > 0, one vote may decide whether a query is answered.
        """
        return self.noise_is_negligible or self.distance > 0

    def release(self, votes: Votes, rng: Source) -> Labels:
        rows, scores = np.arange(votes.queries), votes.counts.astype(np.float64)
        top = np.argmax(np.where(_largest(votes.counts), rng.random(size=scores.shape), -1.0), axis=1)
        scores[rows, top] += self.c
        scores += self.noise.draw(scores.shape, rng)
        best = np.argmax(scores, axis=1)
        labels = np.where(scores[rows, top] == scores[rows, best], top, best)
        return np.where(self._answers(votes.counts), labels, NO_ANSWER).astype(np.int32)

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        answers = self._answers(votes.counts)
        labels = np.where(answers[:, None], self._log_labels(votes.counts), -np.inf)
        return np.column_stack([labels, np.where(answers, -np.inf, 0.0)])

    def accountants(self, votes: Votes) -> list[Accountant]:
        return [*self.claimed(), self.worst_case(), *exact_accountant.accountants(votes, self.neighbours)]

    def _answers(self, counts: Counts) -> NDArray[np.bool_]:
        return gaps(counts) >= self.distance

    def _log_labels(self, counts: Counts) -> Array:
        """Return ln Pr of each label, (queries, classes), given that the query is answered."""
        largest = _largest(counts)
        ties = np.log(largest.sum(axis=1))[:, None]
        if self.noise_is_negligible:
            return np.where(largest, -ties, -np.inf)
        boosted = counts.astype(np.float64)
        boosted[np.arange(len(counts)), np.argmax(counts, axis=1)] += self.c
        log_p = log_argmax_probabilities(boosted, self.noise)
        shared = logsumexp(np.where(largest, log_p, -np.inf))[:, None] - ties
        return np.where(largest, shared, log_p)


def _largest(counts: Counts) -> NDArray[np.bool_]:
    return counts == counts.max(axis=1, keepdims=True)


@dataclass(frozen=True)
class ImmutableGNMax(ImmutableArgmax):
    """Immutable argmax with Gaussian noise: argmax(counts + N(0, σ²)), after c is added to the largest count.

    Sun et al. 2020 (NZC), section 4.2, claim for every c that a query costs as much as a query of GNMax(σ).
    """

    shown = Shown("immutable GNMax", color="vermillion", marker="P")
    published = ("rdp", Conversion.CLASSIC)
    example: ClassVar[Mapping[str, float]] = {"c": 5.0, "sigma": 20.0, "distance": 0.0}

    c: float = parameter(low=0, high=1e300)
    sigma: float = parameter(low=0)
    distance: float = parameter(low=0)

    @property
    def noise(self) -> Gaussian:
        return Gaussian(self.sigma)

    def claimed(self) -> list[Accountant]:
        return [
            RenyiAccountant(
                kind=Kind.CLAIMED,
                source="NZC, section 4.2, which refers to Scalable PATE, Proposition 8",
                totals=repeated(lambda orders: rdp.gaussian(self.sigma, orders)),
                orders=conversion.CLAIMED_ORDERS,
                conversions=(Conversion.CLASSIC,),
            )
        ]

    def worst_case(self) -> Accountant:
        sigma = 0.0 if self.certain else self.sigma / (self.c + 1)
        proof = "Balle & Wang 2018, Theorem 8; Dong, Roth, Su 2022, Corollary 3.3, with L2 sensitivity √2·(c + 1)"
        return DirectAccountant(
            name="gdp",
            kind=Kind.WORST_CASE,
            source=ENDLESS if self.certain else proof,
            epsilon=lambda T, delta: independent.gaussian_dp(independent.cells_mu(sigma, 2 * T), delta),
        )


@dataclass(frozen=True)
class ImmutableLNMax(ImmutableArgmax):
    """Immutable argmax with Laplace noise: argmax(counts + Lap(1/γ)), after c is added to the largest count.

    Sun et al. 2020 (NZC), Theorem 4, claim that a query is 2γ-DP for every c.
    """

    shown = Shown("immutable LNMax", color="vermillion", marker="X")
    published = ("moments", Conversion.CLASSIC)
    example: ClassVar[Mapping[str, float]] = {"c": 5.0, "gamma": 0.05, "distance": 0.0}

    c: float = parameter(low=0, high=1e300)
    gamma: float = parameter(low=0, above=True)
    distance: float = parameter(low=0)

    @property
    def noise(self) -> Laplace:
        return Laplace(1 / self.gamma)

    def claimed(self) -> list[Accountant]:
        return [
            DirectAccountant(
                name="strong-composition",
                label="strong composition",
                kind=Kind.CLAIMED,
                source="NZC, section 4.2, after Theorem 4",
                epsilon=lambda T, delta: independent.strong_composition(self.gamma, T, delta),
            ),
            RenyiAccountant(
                name="moments",
                kind=Kind.CLAIMED,
                source="NZC, Theorem 4, (5), and the tail bound of section 4.1, at every moment",
                totals=repeated(lambda orders: 2 * self.gamma * self.gamma * orders),
                orders=conversion.CLAIMED_ORDERS,
                conversions=(Conversion.CLASSIC,),
            ),
        ]

    def worst_case(self) -> Accountant:
        epsilon = math.inf if self.certain else 2 * (self.c + 1) * self.gamma
        proof = "Laplace mechanism with L1 sensitivity 2(c + 1); Kairouz, Oh, Viswanath 2015, Theorem 3.3"
        return DirectAccountant(
            name="pld",
            kind=Kind.WORST_CASE,
            source=ENDLESS if self.certain else proof,
            epsilon=lambda T, delta: independent.pure_composition(epsilon, T, delta),
        )
