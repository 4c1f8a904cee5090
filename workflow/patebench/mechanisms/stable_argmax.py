"""The stable argmax: propose-test-release (Dwork & Lei 2009; Thakurta & Smith 2013) of the plurality."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import exact, exact_accountant, independent, stability
from patebench.accounting.accountant import Accountant, DirectAccountant
from patebench.accounting.logspace import Array
from patebench.accounting.votes import Counts, Votes
from patebench.core.bound import Conversion, Kind
from patebench.core.seeds import Source
from patebench.mechanisms.base import NO_ANSWER, Labels, Mechanism, parameter
from patebench.mechanisms.neighbours import one_by_one
from patebench.mechanisms.noise import Laplace


@dataclass(frozen=True)
class StableArgmax(Mechanism):
    """The plurality if d + Lap(1/ε) > threshold, else no answer, with d of `stability.distance`.

    The threshold, 1 + ln(1/(2·failure))/ε, is passed at d = 1 with probability `failure`. d changes by at most 1, so
    each test is ε-DP (Dwork et al. 2006), and where T ε-DP steps are (ε_T, δ)-private, T queries are
    (ε_T, δ + T·failure)-private: the theorem of `stability`. So δ must exceed T·failure; otherwise ε = ∞.
    """

    published = ("basic", Conversion.NONE)
    tests_stability = True
    example: ClassVar[Mapping[str, float]] = {"epsilon": 1.0, "failure": 1e-8}

    epsilon: float = parameter(low=0, above=True, high=1e6, words="ε of a query")
    failure: float = parameter(low=0, above=True, high=0.5)

    @property
    def threshold(self) -> float:
        return 1 - math.log(2 * self.failure) / self.epsilon

    def release(self, votes: Votes, rng: Source) -> Labels:
        score = stability.distance(votes.counts) + rng.laplace(scale=1 / self.epsilon, size=votes.queries)
        return np.where(score > self.threshold, votes.plurality, np.int32(NO_ANSWER))

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        log_p = np.full((votes.queries, votes.classes + 1), -np.inf)
        log_p[np.arange(votes.queries), votes.plurality], log_p[:, -1] = self._log_test(votes.counts).T
        return log_p

    def neighbours(self, counts: Counts) -> Iterator[exact.Pairs]:
        """Tied classes share the probability of an answer here, since any of them may be the lowest.

        A neighbour with other tied classes, or another plurality, so has outcomes that are impossible here or there.
        """

        def log_probabilities(rows: Counts) -> Array:
            answered, silent = self._log_test(rows).T
            tied = rows == rows.max(axis=1, keepdims=True)
            share = answered - np.log(tied.sum(axis=1))
            return np.column_stack([np.where(tied, share[:, None], -np.inf), silent])

        return one_by_one(counts, log_probabilities)

    def accountants(self, votes: Votes) -> list[Accountant]:
        theorem = "Thakurta & Smith 2013 (ε-DP tests, T·failure in δ)"
        worst_case = [
            DirectAccountant(
                name="basic",
                kind=Kind.WORST_CASE,
                source=f"{theorem}; Dwork et al. 2006, sequential composition",
                epsilon=lambda T, _: T * self.epsilon,
                failure=lambda T: T * self.failure,
            ),
            DirectAccountant(
                name="pld",
                label="Gaussian DP, PLD",
                kind=Kind.WORST_CASE,
                source=f"{theorem}; Kairouz, Oh, Viswanath 2015, Theorem 3.3",
                epsilon=lambda T, left: independent.pure_composition(self.epsilon, T, left),
                failure=lambda T: T * self.failure,
            ),
        ]
        return [*worst_case, *exact_accountant.accountants(votes, self.neighbours), *self._split(votes)]

    def _split(self, votes: Votes) -> list[Accountant]:
        """The exact divergence of the tests alone, the failures that these votes allow being paid in δ."""
        changeable = stability.changeable(votes.counts)

        def tests(counts: Counts) -> Iterator[exact.Pairs]:
            return one_by_one(counts, self._log_test)

        return [
            replace(
                each,
                name=each.name.replace("exact", "exact-split"),
                source=f"{each.source}, of the tests; failure for each query that one teacher may change, in δ",
                failure=lambda T: float(changeable[T]) * self.failure,
            )
            for each in exact_accountant.accountants(votes, tests)
        ]

    def _log_test(self, counts: Counts) -> Array:
        """ln Pr[answered] and ln Pr[no answer] (queries × 2)."""
        missing = np.asarray(self.epsilon * (1.0 - stability.distance(counts)) - math.log(2 * self.failure))
        noise = Laplace(1.0)
        return np.column_stack([noise.log_distribution(-missing), noise.log_distribution(missing)])
