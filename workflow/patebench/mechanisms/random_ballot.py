"""Random ballots: the vote of one, smoothed (Gibbard 1977, *Manipulation of schemes that mix voting with chance*)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import exact_accountant, rdp
from patebench.accounting.accountant import Accountant
from patebench.accounting.filter import PerQueryCost
from patebench.accounting.pure import pure_accountants
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion
from patebench.core.seeds import Source
from patebench.mechanisms.base import Labels, Mechanism, parameter

#: Why what holds of the mechanism holds of a release (see `RandomBallot`).
_DRAWN = "discrete noise: none is added; the coin, the class and the teacher are drawn exactly"

#: Relative rounding error of ε, with room to spare.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class RandomBallot(Mechanism):
    """With probability u (`uniform`) any class, all equally likely; else the vote of one teacher drawn at random.

    Random dictatorship (Gibbard 1977), smoothed: with c_j of n votes for class j of m, Pr[j] = u/m + (1 − u)c_j/n.

    Each query is ln(1 + (1 − u)m/(un))-DP, and no smaller ε holds. A vote that moves from a to b lowers Pr[a] by
    g = (1 − u)/n, raises Pr[b] by g and leaves all others. Each of the two is p on one side and p + g on the other,
    with p ≥ u/m, since no count is below 0; so its loss is ±ln(1 + g/p), at most ln(1 + gm/u). Where nobody else votes
    for a, p = u/m and the loss is reached. With u = 0 that class becomes impossible: ε = ∞.

    A release is drawn exactly. Teacher and class are uniform integers. The coin compares a multiple of 2⁻⁵³ with u, so
    it says "any class" with u rounded up to such a multiple, never more rarely: what is released is what u promises
    with some labels replaced by any class, so no divergence is larger.
    """

    published = ("pld", Conversion.NONE)
    cost_needs_classes = True
    cost_needs_teachers = True
    discrete = True
    example: ClassVar[Mapping[str, float]] = {"uniform": 0.2}

    uniform: float = parameter(low=0, high=1)

    def epsilon(self, teachers: int, classes: int) -> float:
        """ε of one query, rounded up."""
        if self.uniform == 0:
            return math.inf
        gain = (1 - self.uniform) / teachers * (classes / self.uniform)
        return math.log1p(gain * (1 + _ROUNDING)) * (1 + _ROUNDING)

    def release(self, votes: Votes, rng: Source) -> Labels:
        teacher = rng.integers(0, votes.teachers, size=votes.queries)
        vote = np.argmax(teacher[:, None] < np.cumsum(votes.counts, axis=1), axis=1)
        anything = rng.integers(0, votes.classes, size=votes.queries)
        coin = rng.random(size=votes.queries) < self.uniform
        return np.where(coin, anything, vote).astype(np.int32)

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        """A probability above a half is the complement of the others', whose terms are added: none is negative."""
        share, left = votes.counts / votes.teachers, (votes.teachers - votes.counts) / votes.teachers
        p = self.uniform / votes.classes + (1 - self.uniform) * share
        others = self.uniform * ((votes.classes - 1) / votes.classes) + (1 - self.uniform) * left
        with np.errstate(divide="ignore"):
            log_p = np.where(p > 0.5, np.log1p(-np.minimum(others, 0.75)), np.log(p))
        return np.column_stack([log_p, np.full(votes.queries, -np.inf)])

    def per_query_cost(self, teachers: int, classes: int) -> PerQueryCost:
        epsilon = self.epsilon(teachers, classes)
        return PerQueryCost(lambda orders: rdp.pure(epsilon, orders))

    def accountants(self, votes: Votes) -> list[Accountant]:
        epsilon = self.epsilon(votes.teachers, votes.classes)
        theorem = "RandomBallot: ln(1 + (1 − u)m/(un))-DP, after Gibbard 1977"
        return [
            *pure_accountants(theorem, epsilon, discrete=_DRAWN),
            *exact_accountant.accountants(votes, self.neighbours),
        ]
