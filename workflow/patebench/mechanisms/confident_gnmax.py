"""Confident-GNMax and Interactive-GNMax of Scalable PATE (Papernot et al. 2018).

Confident-GNMax (Algorithm 1) answers a query if many teachers agree. Interactive-GNMax (section 4.3, Algorithm 2)
answers a query if the votes seem to disagree with the student's prediction. Both conditions are tested with noise. The
predictions are public, since they follow from earlier answers and public samples.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from patebench.accounting import discrete_gaussian, exact, exact_accountant, independent, label, rdp
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated, summed
from patebench.accounting.filter import PerQueryCost
from patebench.accounting.logspace import Array, log_expm1, softplus
from patebench.accounting.sanitised import SanitisingNoise
from patebench.accounting.sanitised import accountants as sanitised_accountants
from patebench.accounting.smooth import PerQuery
from patebench.accounting.votes import Counts, Votes, sort_with_ranks
from patebench.core.bound import Conversion, Kind
from patebench.core.seeds import Source
from patebench.mechanisms.base import NO_ANSWER, Labels, Mechanism, Shown, parameter
from patebench.mechanisms.noise import GAUSSIAN
from patebench.mechanisms.noisy_argmax import GNMax


@dataclass(frozen=True)
class ConfidentGNMax(Mechanism):
    """Confident-GNMax: argmax(counts + N(0, σ₂²)) if max count + N(0, σ₁²) ≥ threshold, else no answer.

    The comparison with the threshold is called the test. Its result is public, so every query has the cost of the test,
    answered or not.
    """

    shown = Shown("confident GNMax", color="green", marker="^")
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
        """Return the test statistic of each query, (queries,): the largest count. One vote changes it by at most 1."""
        return votes.counts.max(axis=1)

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        return self._after_test(self._answer.log_outcome_probabilities(votes)[:, :-1], self.test_statistic(votes))

    def _after_test(self, log_p: Array, statistic: ArrayLike) -> Array:
        """Return ln Pr of each outcome, (rows, outcomes + 1); the test adds the last outcome, "no answer".

        Parameters
        ----------
        log_p : (rows, outcomes) ln Pr of each outcome, given that the query is answered
        statistic : (rows,) test statistic, which is compared with the threshold
        """
        answered, unanswered = self.log_answered(statistic)
        return np.column_stack([log_p + answered[:, None], unanswered])

    def neighbours(self, counts: Counts) -> Iterator[exact.Pairs]:
        """Yield the outcome distributions of the histograms `counts` and of all their neighbours.

        The last outcome is "no answer".
        """
        for pairs in self._answer.neighbours(counts):
            yield self._with_test(pairs, counts[pairs.histogram, 0], _largest_counts_after(counts, pairs))

    def _with_test(self, pairs: exact.Pairs, statistic: ArrayLike, statistic_neighbour: ArrayLike) -> exact.Pairs:
        """Return `pairs` with outcome distributions of test and answer together; the last outcome is "no answer".

        Each row of `pairs` contains the outcome distributions of a histogram and of a neighbour, given that the query
        is answered. `statistic` (rows,) is the test statistic of the histogram, and `statistic_neighbour` (rows,) that
        of the neighbour.
        """
        return replace(
            pairs,
            log_p=self._after_test(pairs.log_p, statistic),
            log_p_neighbour=self._after_test(pairs.log_p_neighbour, statistic_neighbour),
            multiplicity=np.pad(pairs.multiplicity, ((0, 0), (0, 1)), constant_values=1),
        )

    def log_answered(self, statistic: ArrayLike) -> tuple[Array, Array]:
        """Return two arrays, ln Pr[answered] and ln Pr[no answer], for queries whose test statistic is `statistic`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            above = (np.asarray(statistic, dtype=np.float64) - self.threshold) / self.sigma1
        above = np.where(np.isnan(above), 0.0 if self.sigma1 > 0 else np.inf, above)
        return log_ndtr(above), log_ndtr(-above)

    def mu(self, queries: int) -> float:
        """Return the μ for which labels of T = `queries` queries are μ-GDP: √(T/σ₁² + 2T/σ₂²).

        A label is a function of the largest count with noise of scale σ₁ and of all counts with noise of scale σ₂.
        Moving one vote changes the largest count by at most 1, and the vector of counts by √2 in L2 norm.
        """
        test, counts = independent.cells_mu(self.sigma1, queries), independent.cells_mu(self.sigma2, 2 * queries)
        return math.hypot(test, counts)

    def test_cost(self, orders: Array) -> Array:
        """Return α/(2σ₁²) per order α, a bound on the Rényi divergence of one test (Mironov 2017, Corollary 3)."""
        return rdp.gaussian(math.sqrt(2) * self.sigma1, orders)

    def data_independent(self, orders: Array) -> Array:
        """Return α/(2σ₁²) + α/σ₂² per order α, a worst-case bound on the Rényi divergence of an answered query.

        Theorems: Mironov 2017, Corollary 3; Scalable PATE, Proposition 8.
        """
        return self.test_cost(orders) + rdp.gaussian(self.sigma2, orders)

    def data_dependent(self, rows: Array, orders: Array) -> Array:
        """Return data-dependent bounds on the Rényi divergence of test and answer together, (queries × orders).

        The columns of `rows` (queries, 2) are the test statistic and an upper bound on ln Pr[the answer is not the
        plurality] (`rdp.gaussian_log_q`). For each neighbour, the divergence is at most

            ln((1−s)^α (1−s′)^{1−α} + s^α s′^{1−α} e^{(α−1)D})/(α−1)

        with s = Pr[answered] for the votes, and s′ = Pr[answered] for the neighbour. D is the bound of Scalable PATE,
        Theorem 6, on the divergence of the answer. The result is the maximum over all neighbours, but at most
        `data_independent`.
        """
        statistic, log_q = rows.T
        answer = log_expm1((orders - 1) * rdp.gaussian_data_dependent(log_q, self.sigma2, orders))
        log_p = np.stack(self.log_answered(statistic), axis=1)
        ones = np.ones(log_p.shape, dtype=np.int64)
        worst = np.zeros_like(answer)
        for change in (-1, 0, 1):
            log_p_neighbour = np.stack(self.log_answered(statistic + change), axis=1)
            test = log_expm1((orders - 1) * exact.divergence(log_p, log_p_neighbour, ones, orders))
            log_s, log_s_neighbour = log_p[:, :1], log_p_neighbour[:, :1]
            with np.errstate(invalid="ignore"):
                log_weight = np.where(log_s > -np.inf, log_s + (orders - 1) * (log_s - log_s_neighbour), -np.inf)
            worst = np.maximum(worst, softplus(np.logaddexp(test, log_weight + answer)) / (orders - 1))
        return np.minimum(worst, self.data_independent(orders))

    def expected(self, rows: Array, orders: Array) -> Array:
        """Return the expected Rényi cost of each query (queries × orders), as in the tables of Scalable PATE.

        This is the cost of the test plus Pr[answered] times the cost of the answer. Both costs are data-dependent
        bounds by Theorem 6 of that paper. The expected cost is not a bound, since Rényi divergences cannot be averaged.
        The columns of `rows` (queries, 2) are the test statistic and an upper bound on ln Pr[the answer is not the
        plurality].
        """
        statistic, log_q = rows.T
        answered, unanswered = self.log_answered(statistic)
        test = rdp.gaussian_data_dependent(np.minimum(answered, unanswered), math.sqrt(2) * self.sigma1, orders)
        answer = rdp.gaussian_data_dependent(log_q, self.sigma2, orders)
        return test + np.exp(answered)[:, None] * answer

    def per_query_cost(self, teachers: int, classes: int) -> PerQueryCost:
        return PerQueryCost(answer=self._answer.per_query_cost(teachers, classes).answer, threshold_test=self.test_cost)

    def accountants(self, votes: Votes) -> list[Accountant]:
        log_q = rdp.gaussian_log_q(votes.counts, self.sigma2)
        rows = np.column_stack([self.test_statistic(votes), log_q])
        return [
            DirectAccountant(
                name="gdp",
                kind=Kind.WORST_CASE,
                source="Balle & Wang 2018, Theorem 8; Dong, Roth, Su 2022, Corollary 3.3, with μ = √(T/σ₁² + 2T/σ₂²)",
                epsilon=lambda T, delta: independent.gaussian_dp(self.mu(T), delta),
                discrete=discrete_gaussian.accountant(
                    # T noisy maxima and 2T noisy counts change by one each.
                    lambda T, delta: discrete_gaussian.several([(self.sigma1, T), (self.sigma2, 2 * T)], delta),
                    "T draws of σ₁ and 2T of σ₂, together near a sum of continuous ones",
                ),
            ),
            label.accountant(
                label.gaussian, self.sigma2, further_costs=self.test_cost, test="Mironov 2017, Corollary 3 (test)"
            ),
            RenyiAccountant(
                kind=Kind.WORST_CASE,
                source="Mironov 2017, Corollary 3 (test); Scalable PATE, Proposition 8 (every query answered)",
                discrete=GAUSSIAN,
                totals=repeated(self.data_independent),
            ),
            RenyiAccountant(
                kind=Kind.DATA_DEPENDENT,
                source="exact divergence of the test, composed with Scalable PATE, Theorem 6 for the answer",
                totals=summed(self.data_dependent, rows),
            ),
            RenyiAccountant(
                name="rdp-expected",
                label="Rényi, expected",
                kind=Kind.CLAIMED,
                source="Scalable PATE, Theorem 6 for test and answer, weighted by Pr[answered]: expected, no bound",
                totals=summed(self.expected, rows),
            ),
            *exact_accountant.accountants(votes, self.changes(votes) if self.sigma1 > 0 and self.sigma2 > 0 else None),
        ]

    def changes(self, votes: Votes) -> exact.Neighbours | exact.PerQueryNeighbours:
        """Return the function by which exact accountants get the distributions of `votes` and of all neighbours."""
        return self.neighbours

    def sanitised(self, votes: Votes, noise: SanitisingNoise) -> list[Accountant]:
        """Return accountants of sanitised bounds: data-dependent bounds that may be published after `noise` is added.

        The cost of a query is the worst-case cost of the test plus the data-dependent cost of an answer, even if the
        query is not answered.
        """
        per_query = PerQuery(
            lambda counts: rdp.gaussian_log_q(counts, self.sigma2),
            lambda log_q, orders: rdp.gaussian_data_dependent(log_q, self.sigma2, orders) + self.test_cost(orders),
        )
        theorem = "Mironov 2017, Corollary 3 (test, worst case); Scalable PATE, Theorem 6 (answer to every query)"
        return sanitised_accountants(votes, per_query, self.data_independent, theorem, noise)

    @property
    def _answer(self) -> GNMax:
        return GNMax(self.sigma2)


def _largest_counts_after(counts: Counts, pairs: exact.Pairs) -> NDArray[np.int64]:
    """Return the largest count of each neighbour in `pairs`, (neighbours,).

    Neighbour i is row `pairs.histogram[i]` of `counts` with one vote moved to another class. `counts` (histograms ×
    classes) has rows in descending order.
    """
    top, second = counts[pairs.histogram, 0], counts[pairs.histogram, 1]
    falls = (pairs.loses == 0) & (top > second)
    return np.where(falls, np.maximum(top - 1, second + (pairs.gains == 1)), np.where(pairs.gains == 0, top + 1, top))


Integers = NDArray[np.integer]


@dataclass(frozen=True)
class InteractiveGNMax(ConfidentGNMax):
    """Interactive-GNMax: argmax(counts + N(0, σ₂²)) if max(counts − n·p) + N(0, σ₁²) ≥ threshold, else no answer.

    n is the number of teachers and p the student's predicted probabilities. One vote changes max(counts − n·p) by at
    most 1, just as it changes the largest count in Confident-GNMax. Without predictions, before there is a student, the
    mechanism is Confident-GNMax. If a query gets no answer and the student predicts a class with a probability above
    `confidence`, the student uses this class as label. Such a label depends only on public predictions and on the
    missing answer, so it adds no privacy cost.
    """

    shown = Shown("interactive GNMax", color="green", marker="v")
    discrete = False  # the test compares real numbers, which discrete noise would not hide
    example: ClassVar[Mapping[str, float]] = {"threshold": 40.0, "sigma1": 20.0, "sigma2": 10.0, "confidence": 0.9}

    confidence: float = parameter(low=0, high=1)

    def test_statistic(self, votes: Votes) -> NDArray[Any]:
        return self._differences(votes).max(axis=1)

    def student_labels(self, votes: Votes) -> Labels:
        if votes.predictions is None:
            return super().student_labels(votes)
        sure = votes.predictions.max(axis=1) > self.confidence
        return np.where(sure, np.argmax(votes.predictions, axis=1), NO_ANSWER).astype(np.int32)

    def changes(self, votes: Votes) -> exact.Neighbours | exact.PerQueryNeighbours:
        return self.neighbours if votes.predictions is None else exact.PerQueryNeighbours(self._neighbours_by_class)

    def _differences(self, votes: Votes) -> NDArray[Any]:
        return votes.counts if votes.predictions is None else votes.counts - votes.teachers * votes.predictions

    def _neighbours_by_class(self, votes: Votes) -> Iterator[exact.Pairs]:
        """Yield the outcome distributions of `votes` and of all neighbours, one neighbour per ordered pair of classes.

        In a neighbour, one vote has moved from the first class of the pair to the second. Classes with the same count
        need separate neighbours, because they may have different predictions, on which the test depends.
        """
        differences = self._differences(votes)
        ordered, rank = sort_with_ranks(votes.counts)
        for by_rank in self._answer.neighbours(ordered):
            pairs = _ranks_to_classes(by_rank, rank)
            after = _largest_differences_after(differences, pairs)
            yield self._with_test(pairs, differences[pairs.histogram].max(axis=1), after)


def _ranks_to_classes(pairs: exact.Pairs, rank: Integers) -> exact.Pairs:
    """Expand `pairs`, which has one row per pair of ranks, to one row per pair of classes.

    `rank` (queries × classes) is the rank of each class by its count; classes with equal counts have the same rank. A
    row of `pairs` stands for all moves of a vote from a class of one rank to a class of another or the same rank. The
    result has one row for each of these moves.
    """
    may_lose = rank[pairs.histogram] == pairs.loses[:, None]
    may_gain = rank[pairs.histogram] == pairs.gains[:, None]
    other = ~np.eye(rank.shape[1], dtype=bool)
    row, loses, gains = np.nonzero(may_lose[:, :, None] & may_gain[:, None, :] & other)
    order = np.lexsort((loses, pairs.histogram[row]))
    row, loses, gains = row[order], loses[order], gains[order]
    return exact.Pairs(
        pairs.histogram[row], loses, gains, pairs.log_p[row], pairs.log_p_neighbour[row], pairs.multiplicity[row]
    )


def _largest_differences_after(differences: NDArray[Any], pairs: exact.Pairs) -> NDArray[Any]:
    """Return the largest difference of a count from the predicted count, for each neighbour in `pairs`, (neighbours,).

    `differences` (queries × classes) are the differences before a vote moves.
    """
    rows, changed = np.arange(len(pairs.histogram)), differences[pairs.histogram]
    changed[rows, pairs.loses] -= 1
    changed[rows, pairs.gains] += 1
    return changed.max(axis=1)
