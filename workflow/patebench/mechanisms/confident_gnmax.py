"""Confident-GNMax of Scalable PATE (Papernot et al. 2018, Algorithm 1): it answers where the teachers agree."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patebench.accounting import (
    conversion,
    discrete_gaussian,
    exact,
    exact_accountant,
    independent,
    label,
    plurality,
    rdp,
)
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated, summed
from patebench.accounting.filter import PerQueryCost
from patebench.accounting.logspace import Array
from patebench.accounting.sanitised_accountant import SanitisingNoise
from patebench.accounting.sanitised_accountant import accountants as sanitised_accountants
from patebench.accounting.smooth import PerQuery
from patebench.accounting.threshold_test import ThresholdTest
from patebench.accounting.votes import Counts, Votes
from patebench.core.bound import Conversion, Kind
from patebench.core.seeds import Source
from patebench.mechanisms.base import NO_ANSWER, Labels, Mechanism, parameter
from patebench.mechanisms.gnmax import GNMax
from patebench.mechanisms.noise import GAUSSIAN


@dataclass(frozen=True)
class ConfidentGNMax(Mechanism):
    """If max count + N(0, σ₁²) ≥ threshold then argmax(counts + N(0, σ₂²)), else no answer.

    Bounds on T queries count the queries that were put, answered or not.
    """

    published = ("rdp", Conversion.CLASSIC)
    discrete = True
    example: ClassVar[Mapping[str, float]] = {"threshold": 40.0, "sigma1": 20.0, "sigma2": 10.0}

    threshold: float = parameter(low=0)
    sigma1: float = parameter(low=0)
    sigma2: float = parameter(low=0)

    def release(self, votes: Votes, rng: Source) -> Labels:
        score = self.test_statistic(votes) + rng.normal(scale=self.sigma1, size=votes.queries)
        answered = np.flatnonzero(score >= self.threshold)
        labels = np.full(votes.queries, NO_ANSWER, dtype=np.int32)
        labels[answered] = self._answer.release(votes.at(answered), rng)
        return labels

    def test_statistic(self, votes: Votes) -> NDArray[Any]:
        """What the test compares with the threshold, per query; one vote changes it by at most 1."""
        top: NDArray[Any] = votes.counts.max(axis=1)
        return top

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        answered, unanswered = self._threshold_test.log_answered(self.test_statistic(votes))
        labels = self._answer.log_outcome_probabilities(votes)[:, :-1]
        return np.column_stack([labels + answered[:, None], unanswered])

    def neighbours(self, counts: Counts) -> Iterator[exact.Pairs]:
        """The neighbours of the answer, each with the largest count that the change leaves, and "no answer"."""
        for pairs in self._answer.neighbours(counts):
            yield self._with_test(pairs, counts[pairs.histogram, 0], _top_after(counts, pairs))

    def _with_test(self, pairs: exact.Pairs, statistic: ArrayLike, statistic_neighbour: ArrayLike) -> exact.Pairs:
        """Neighbours of the release, from those of the answer and the test statistic before and after each change."""

        def outcomes(log_p: Array, statistic: ArrayLike) -> Array:
            answered, unanswered = self._threshold_test.log_answered(statistic)
            return np.column_stack([log_p + answered[:, None], unanswered])

        return replace(
            pairs,
            log_p=outcomes(pairs.log_p, statistic),
            log_p_neighbour=outcomes(pairs.log_p_neighbour, statistic_neighbour),
            multiplicity=np.pad(pairs.multiplicity, ((0, 0), (0, 1)), constant_values=1),
        )

    def per_query_cost(self, teachers: int, classes: int) -> PerQueryCost:
        return PerQueryCost(
            answer=self._answer.per_query_cost(teachers, classes).answer, threshold_test=self._threshold_test.test
        )

    def accountants(self, votes: Votes) -> list[Accountant]:
        log_q = plurality.gaussian_log_q(votes.counts, self.sigma2)
        rows = np.column_stack([self.test_statistic(votes), log_q])
        test = self._threshold_test
        return [
            DirectAccountant(
                name="gdp",
                label="Gaussian DP, PLD",
                kind=Kind.WORST_CASE,
                source="Balle & Wang 2018, Theorem 8; Dong, Roth, Su 2022, Corollary 3.3, with μ = √(T/σ₁² + 2T/σ₂²)",
                epsilon=lambda T, delta: independent.gaussian_dp(test.mu(T), delta),
                discrete=discrete_gaussian.accountant(
                    test.discrete, "T draws of σ₁ and 2T of σ₂, together near a sum of continuous ones"
                ),
            ),
            label.accountant(*self._answer.label_costs(), besides=test.test, test="Mironov 2017, Corollary 3 (test)"),
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.WORST_CASE,
                source="Mironov 2017, Corollary 3 (test); Scalable PATE, Proposition 8 (every query answered)",
                discrete=GAUSSIAN,
                totals=repeated(test.data_independent),
                orders=conversion.ORDERS,
            ),
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.DATA_DEPENDENT,
                source="exact divergence of the test, composed with Scalable PATE, Theorem 6 for the answer",
                totals=summed(test.data_dependent, rows),
                orders=conversion.ORDERS,
            ),
            RenyiAccountant(
                name="rdp-expected",
                label="Rényi, expected",
                kind=Kind.CLAIMED,
                source="Scalable PATE, Theorem 6 for test and answer, weighted by Pr[answered]: expected, no bound",
                totals=summed(test.expected, rows),
                orders=conversion.ORDERS,
            ),
            *exact_accountant.accountants(votes, self.changes(votes) if self.sigma1 > 0 and self.sigma2 > 0 else None),
        ]

    def changes(self, votes: Votes) -> exact.Neighbours | exact.PerQueryNeighbours:
        """The neighbours that the exact accountants compare these votes with."""
        return self.neighbours

    def sanitised(self, votes: Votes, noise: SanitisingNoise) -> list[Accountant]:
        """The test at its worst case, composed with the answer as if it were always given: that hides no more."""
        per_query = PerQuery(
            lambda counts: plurality.gaussian_log_q(counts, self.sigma2),
            lambda log_q, orders: (
                rdp.gaussian_data_dependent(log_q, self.sigma2, orders) + self._threshold_test.test(orders)
            ),
        )
        theorem = "Mironov 2017, Corollary 3 (test, worst case); Scalable PATE, Theorem 6 (answer to every query)"
        return sanitised_accountants(votes, per_query, self._threshold_test.data_independent, theorem, noise)

    @property
    def _answer(self) -> GNMax:
        return GNMax(self.sigma2)

    @property
    def _threshold_test(self) -> ThresholdTest:
        return ThresholdTest(self.threshold, self.sigma1, self.sigma2)


def _top_after(counts: Counts, pairs: exact.Pairs) -> NDArray[np.int64]:
    """The largest count after each change, of histograms in descending order."""
    top, second = counts[pairs.histogram, 0], counts[pairs.histogram, 1]
    falls = (pairs.loses == 0) & (top > second)
    result: NDArray[np.int64] = np.where(
        falls, np.maximum(top - 1, second + (pairs.gains == 1)), np.where(pairs.gains == 0, top + 1, top)
    )
    return result
