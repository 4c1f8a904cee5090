"""Confident-GNMax of Scalable PATE (Papernot et al. 2018, Algorithm 1): it answers where the teachers agree."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patebench.accounting import conversion, exact, independent, plurality, rdp
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated, summed
from patebench.accounting.filter import Costs
from patebench.accounting.sanitised_accountant import Noise
from patebench.accounting.sanitised_accountant import accountants as sanitised_accountants
from patebench.accounting.screening import Screening
from patebench.accounting.smooth import PerQuery
from patebench.accounting.votes import Counts, Votes
from patebench.core.bound import Conversion, Kind
from patebench.core.seeds import Source
from patebench.mechanisms.base import NO_ANSWER, Labels, Mechanism, parameter
from patebench.mechanisms.gnmax import GNMax
from patebench.mechanisms.noise import GAUSSIAN


@dataclass(frozen=True)
class ConfidentGNMax(Mechanism):
    """If max count + N(0, σ₁²) ≥ threshold then argmax(counts + N(0, σ₂²)), else no answer.

    Bounds on T queries count the queries asked, answered or not.
    """

    published = ("rdp", Conversion.CLASSIC)
    discrete = True

    threshold: float = parameter(low=0)
    sigma1: float = parameter(low=0)
    sigma2: float = parameter(low=0)

    def release(self, votes: Votes, rng: Source) -> Labels:
        score = self.evidence(votes) + rng.normal(scale=self.sigma1, size=votes.queries)
        answered = np.flatnonzero(score >= self.threshold)
        labels = np.full(votes.queries, NO_ANSWER, dtype=np.int32)
        labels[answered] = self._answer.release(votes.at(answered), rng)
        return labels

    def evidence(self, votes: Votes) -> NDArray[Any]:
        """What the test compares with the threshold, per query: one vote changes it by at most 1."""
        top: NDArray[Any] = votes.counts.max(axis=1)
        return top

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        answered, silent = self._screening.log_answered(self.evidence(votes))
        labels = self._answer.log_outcome_probabilities(votes)[:, :-1]
        return np.column_stack([labels + answered[:, None], silent])

    def neighbours(self, counts: Counts) -> Iterator[exact.Pairs]:
        """The neighbours of the answer, each with the largest count that the change leaves, and "no answer"."""
        for pairs in self._answer.neighbours(counts):
            yield self._screened(pairs, counts[pairs.histogram, 0], _top_after(counts, pairs))

    def _screened(self, pairs: exact.Pairs, here: ArrayLike, there: ArrayLike) -> exact.Pairs:
        """Neighbours of the answer with the evidence before and after each change: the outcomes of the whole."""
        answered, silent = self._screening.log_answered(here)
        answered_there, silent_there = self._screening.log_answered(there)
        return replace(
            pairs,
            here=np.column_stack([pairs.here + answered[:, None], silent]),
            there=np.column_stack([pairs.there + answered_there[:, None], silent_there]),
            multiplicity=np.pad(pairs.multiplicity, ((0, 0), (0, 1)), constant_values=1),
        )

    def costs(self, teachers: int) -> Costs:
        return Costs(answer=self._answer.costs(teachers).answer, question=self._screening.test)

    def accountants(self, votes: Votes) -> list[Accountant]:
        log_q = plurality.gaussian_log_q(votes.counts, self.sigma2)
        rows, screening = np.column_stack([self.evidence(votes), log_q]), self._screening
        return [
            DirectAccountant(
                name="gdp",
                kind=Kind.WORST_CASE,
                source="Balle & Wang 2018, Theorem 8; Dong, Roth, Su 2022, Corollary 3.3, with μ = √(T/σ₁² + 2T/σ₂²)",
                epsilon=lambda T, delta: independent.gaussian_dp(screening.mu(T), delta),
            ),
            RenyiAccountant(
                name="rdp",
                kind=Kind.WORST_CASE,
                source="Mironov 2017, Corollary 3 (test); Scalable PATE, Proposition 8 (every query answered)",
                discrete=GAUSSIAN,
                totals=repeated(screening.data_independent),
                orders=conversion.ORDERS,
            ),
            RenyiAccountant(
                name="rdp",
                kind=Kind.DATA_DEPENDENT,
                source="exact divergence of the test, composed with Scalable PATE, Theorem 6 for the answer",
                totals=summed(screening.data_dependent, rows),
                orders=conversion.ORDERS,
            ),
            RenyiAccountant(
                name="rdp-expected",
                kind=Kind.CLAIMED,
                source="Scalable PATE, Theorem 6 for test and answer, weighted by Pr[answered]: expected, no bound",
                totals=summed(screening.expected, rows),
                orders=conversion.ORDERS,
            ),
            *exact.accountants(votes, self.changes(votes) if self.sigma1 > 0 and self.sigma2 > 0 else None),
        ]

    def changes(self, votes: Votes) -> exact.Neighbours | exact.Apart:
        """What the exact accountants compare these votes with."""
        return self.neighbours

    def sanitised(self, votes: Votes, noise: Noise) -> list[Accountant]:
        """The test at its worst case, composed with the answer as if it were always given: that hides no more."""
        per_query = PerQuery(
            lambda counts: plurality.gaussian_log_q(counts, self.sigma2),
            lambda log_q, orders: (
                rdp.gaussian_data_dependent(log_q, self.sigma2, orders) + self._screening.test(orders)
            ),
        )
        theorem = "Mironov 2017, Corollary 3 (test, worst case); Scalable PATE, Theorem 6 (answer to every query)"
        return sanitised_accountants(votes, per_query, self._screening.data_independent, theorem, noise)

    @property
    def _answer(self) -> GNMax:
        return GNMax(self.sigma2)

    @property
    def _screening(self) -> Screening:
        return Screening(self.threshold, self.sigma1, self.sigma2)


def _top_after(counts: Counts, pairs: exact.Pairs) -> NDArray[np.int64]:
    """The largest count after each change, of histograms in descending order."""
    top, second = counts[pairs.histogram, 0], counts[pairs.histogram, 1]
    falls = (pairs.down == 0) & (top > second)
    result: NDArray[np.int64] = np.where(
        falls, np.maximum(top - 1, second + (pairs.up == 1)), np.where(pairs.up == 0, top + 1, top)
    )
    return result
