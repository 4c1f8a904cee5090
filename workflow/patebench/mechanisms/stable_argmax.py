"""Release the plurality of a query only if a few teachers cannot change it; otherwise, release no answer.

The method is propose-test-release of the plurality (Dwork & Lei 2009; Thakurta & Smith 2013). The tests may be composed
by the sparse vector technique, with Laplace noise (Bassily, Thakkar, Thakurta 2018) or Gaussian noise (after Zhu & Wang
2020).

Theorem. Let the outcomes of the tests be (ε, δ)-private. For two adjacent votes, call a query unstable if its plurality
differs between them. For every pair of adjacent votes, let the probability that at least one unstable query is answered
be at most F. Then the release is (ε, δ + F)-private.

The mechanisms answer an unstable query with probability at most `failure`, one of their parameters. In the worst case,
all T queries are unstable, and F = T·failure. Data-dependent bounds use the function `distance`: a query at distance 2
or more cannot be unstable. For these bounds, F is `failure` times the number of queries at distance 0 or 1. Proof:
docs/explanation/proofs-mechanisms.md, "Stable releases".
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from patebench.accounting import conversion, exact, exact_accountant, independent, sparse_vector
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant
from patebench.accounting.logspace import Array
from patebench.accounting.votes import Counts, Votes, gaps
from patebench.core.bound import Conversion, Kind
from patebench.core.seeds import Source
from patebench.mechanisms.base import NO_ANSWER, Answering, Labels, Mechanism, Shown, parameter
from patebench.mechanisms.neighbours import one_by_one
from patebench.mechanisms.noise import Gaussian, Laplace, Noise


def distance(counts: Counts) -> NDArray[np.int64]:
    """Return d = ⌈g/2⌉ for each query, (queries,), with g the gap between the two largest `counts` (queries × classes).

    At least d teachers must change their votes to change the plurality. If a single teacher can change the plurality,
    then d ≤ 1. One teacher changes g by at most 2, and therefore d by at most 1.
    """
    return (gaps(counts) + 1) // 2


@dataclass(frozen=True)
class StableArgmax(Mechanism):
    """Stable argmax: the plurality if d + Lap(1/ε) > threshold, else no answer; d is the `distance` of the query.

    The threshold is 1 + ln(1/(2·failure))/ε, so that a query with d = 1 passes with probability `failure`. One teacher
    changes d by at most 1, so each test is ε-DP (Dwork et al. 2006).

    If T tests are together (ε_T, δ′)-DP, the labels of T queries are (ε_T, δ′ + T·failure)-DP. The term T·failure
    bounds the probability of answering any query whose plurality one teacher can change.
    """

    shown = Shown("stable argmax", color="purple", marker="D")
    published = ("basic", Conversion.NONE)
    tests_stability = True
    example: ClassVar[Mapping[str, float]] = {"epsilon": 1.0, "failure": 1e-8}

    epsilon: float = parameter(low=0, above=True, high=1e6, words="ε of a query")
    failure: float = parameter(low=0, above=True, high=0.5)

    @property
    def threshold(self) -> float:
        return 1 - math.log(2 * self.failure) / self.epsilon

    def release(self, votes: Votes, rng: Source) -> Labels:
        score = distance(votes.counts) + rng.laplace(scale=1 / self.epsilon, size=votes.queries)
        return np.where(score > self.threshold, votes.plurality, np.int32(NO_ANSWER))

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        log_p = np.full((votes.queries, votes.classes + 1), -np.inf)
        log_p[np.arange(votes.queries), votes.plurality], log_p[:, -1] = self._log_test_outcomes(votes.counts).T
        return log_p

    def neighbours(self, counts: Counts) -> Iterator[exact.Pairs]:
        """Yield the outcome distributions of the histograms `counts` and of all their neighbours.

        A moved vote may change the plurality. Some labels then have probability 0 for the histogram but not for its
        neighbour, or vice versa. In a tie for the plurality, all tied classes get the same probability, because
        `counts` in descending order do not show which of these classes has the lowest index.
        """

        def log_probabilities(rows: Counts) -> Array:
            answered, unanswered = self._log_test_outcomes(rows).T
            tied = rows == rows.max(axis=1, keepdims=True)
            share = answered - np.log(tied.sum(axis=1))
            return np.column_stack([np.where(tied, share[:, None], -np.inf), unanswered])

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
                kind=Kind.WORST_CASE,
                source=f"{theorem}; Kairouz, Oh, Viswanath 2015, Theorem 3.3",
                epsilon=lambda T, left: independent.pure_composition(self.epsilon, T, left),
                failure=lambda T: T * self.failure,
            ),
        ]
        return [*worst_case, *exact_accountant.accountants(votes, self.neighbours), *self._split_accountants(votes)]

    def _split_accountants(self, votes: Votes) -> list[Accountant]:
        """Return accountants that compute the ε of the stability tests exactly, and add the failures of the tests to δ.

        Only a query whose plurality one teacher can change may get different labels for two neighbours. Such a query is
        answered with probability at most `failure`, which is added to δ for each query of this kind.
        """
        may_change = np.concatenate([[0], np.cumsum(distance(votes.counts) <= 1)])  # of the first T queries

        def tests(counts: Counts) -> Iterator[exact.Pairs]:
            return one_by_one(counts, self._log_test_outcomes)

        return [
            replace(
                accountant,
                name=accountant.name.replace("exact", "exact-split"),
                source=f"{accountant.source}, of the tests; failure for each query that one teacher may change, in δ",
                failure=lambda T: float(may_change[T]) * self.failure,
            )
            for accountant in exact_accountant.accountants(votes, tests)
        ]

    def _log_test_outcomes(self, counts: Counts) -> Array:
        """Return ln Pr[answer] and ln Pr[no answer] of each query, (queries, 2)."""
        missing = np.asarray(self.epsilon * (1.0 - distance(counts)) - math.log(2 * self.failure))
        noise = Laplace(1.0)
        return np.column_stack([noise.log_distribution(-missing), noise.log_distribution(missing)])


#: Range of the quadrature, in scales of the threshold's noise; a probability of at most e⁻⁴⁰ lies outside.
_REACH = 40.0

#: Probabilities below this are ignored.
_NOTHING = 1e-20

#: Gauss–Legendre nodes and weights on [0, 1], for each panel.
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(8))


class SparseVector(Mechanism):
    """Sparse vector technique: the plurality if d + ν > threshold + ρ, else no answer; d is the query's `distance`.

    The noise ρ is drawn once, and the noise ν for every query. After `cutoff` unanswered queries, no query is answered.
    A query with d ≤ 1, whose plurality one teacher may change, is answered with probability at most `failure`. The ε of
    T queries is that of their tests (`accounting.sparse_vector`), and T·failure is added to δ.
    """

    answering: ClassVar[Answering] = Answering.IN_SEQUENCE
    tests_stability: ClassVar[bool] = True

    # Fields of the subclasses, which define the noise parameters before them.
    failure: float
    cutoff: float

    @property
    @abstractmethod
    def threshold(self) -> float:
        """Return the threshold with which a query's distance is compared, before the noise ρ is added."""

    @property
    @abstractmethod
    def noises(self) -> tuple[Noise, Noise]:
        """Return the noise ρ added to the threshold, and the noise ν added to the distance of each query."""

    @property
    def failures(self) -> int:
        """Return `cutoff`, the number of failed tests after which no query is answered, as an int."""
        return int(self.cutoff)

    def renyi_accountant(
        self, curve: Callable[[float, float, int, int, Array], Array], **options: Any
    ) -> RenyiAccountant:
        """Return the worst-case Rényi accountant of the labels.

        `curve` is one of the functions `laplace` and `gaussian` in `accounting.sparse_vector`. Its arguments are the
        noise scale of the threshold, the noise scale of a query, the number of queries, the cutoff, and the orders
        (orders,). It returns bounds (orders,) on the Rényi divergence of all tests. `options` are further fields of the
        accountant.
        """
        first, second = (noise.scale for noise in self.noises)
        return RenyiAccountant(
            kind=Kind.WORST_CASE,
            source="Bassily, Thakkar, Thakurta 2018 (T·failure in δ); Rényi divergence of the sparse vector "
            "technique, proved in accounting/sparse_vector",
            totals=lambda queries, orders: np.stack([curve(first, second, T, self.failures, orders) for T in queries]),
            failure=lambda T: T * self.failure,
            **options,
        )

    def release(self, votes: Votes, rng: Source) -> Labels:
        of_threshold, of_test = self.noises
        limit = self.threshold + of_threshold.draw((1,), rng)
        failed = distance(votes.counts) + of_test.draw((votes.queries,), rng) <= limit
        answered = ~failed & (np.cumsum(failed) < self.failures)
        return np.where(answered, votes.plurality, np.int32(NO_ANSWER))

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        """Return ln Pr of each label and of "no answer" for each query alone, (queries, classes + 1).

        Jointly, queries depend on each other through the noise of the threshold and the number of earlier failures.
        """
        answered = self._answer_probabilities(distance(votes.counts))
        log_p = np.full((votes.queries, votes.classes + 1), -np.inf)
        with np.errstate(divide="ignore"):
            log_p[np.arange(votes.queries), votes.plurality] = np.log(answered)
        log_p[:, -1] = np.log1p(-answered)
        return log_p

    def _answer_probabilities(self, distances: NDArray[np.int64]) -> Array:
        """Return Pr[answered] of each query, (queries,), for these `distances` of consecutive queries."""
        values, which = np.unique(distances, return_inverse=True)
        rho, mass = self._threshold_nodes(values)
        # At every node, the distribution of the number of failures is updated from query to query.
        of_test = self.noises[1]
        failing = np.exp(of_test.log_distribution((self.threshold + rho - values[:, None]) / of_test.scale))
        state = np.zeros((min(self.failures, len(distances)), len(rho)))
        state[0] = mass
        result = np.zeros(len(distances))
        for query, row in enumerate(which):
            failed = state * failing[row]
            state -= failed
            result[query] = state.sum()
            state[1:] += failed[:-1]
            if query % 64 == 0 and state.sum() < _NOTHING:
                break
        return np.clip(result, 0.0, 1 - 1e-16)

    def _threshold_nodes(self, distances: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return quadrature nodes and weights for the noise ρ of the threshold, (nodes,) each.

        As a function of ρ, Pr[answered] has kinks at `distances` minus the threshold.
        """
        noise = self.noises[0]
        edge = _REACH * noise.scale
        # Panels end at the kinks.
        bends = np.concatenate([np.linspace(-edge, edge, 161), distances - self.threshold])
        edges = np.unique(bends[np.abs(bends) <= edge])
        width = np.diff(edges)[:, None]
        rho = (edges[:-1, None] + width * (_NODES + 0.5)).ravel()
        mass = np.exp(noise.log_density(rho / noise.scale)) / noise.scale * (width * _WEIGHTS).ravel()
        return rho[mass > _NOTHING], mass[mass > _NOTHING]


@dataclass(frozen=True)
class StableSVT(SparseVector):
    """Sparse vector technique with Laplace noise of scale b₁ on the threshold and b₂ on each query's distance.

    All tests together are ε-DP, with ε = 1/b₁ + 2c/b₂ and c = `cutoff`. The ratio of the two terms is 1 : (2c)^{2/3},
    which minimises the noise of a comparison (Lyu, Su, Li 2017, section 4.2). One noisy threshold is used for all
    queries, so its cost counts once. Bassily, Thakkar and Thakurta 2018 instead draw a new threshold after each
    unanswered query and compose c runs.
    """

    shown = Shown("stable SVT", color="purple", marker="p")
    example: ClassVar[Mapping[str, float]] = {"epsilon": 120.0, "failure": 1e-8, "cutoff": 40.0}

    epsilon: float = parameter(low=0, above=True, high=1e6, words="ε of all queries")
    failure: float = parameter(low=0, above=True, high=0.5)
    cutoff: float = parameter(low=1, whole=True)

    @property
    def noises(self) -> tuple[Laplace, Laplace]:
        share = (2 * self.cutoff) ** (2 / 3)
        scale = (1 + share) / self.epsilon
        return Laplace(scale), Laplace(2 * self.cutoff / share * scale)

    @property
    def threshold(self) -> float:
        """Return the threshold 1 + z such that a query with d = 1 passes the test with probability at most `failure`.

        The noise ν on d has scale b₂, and the noise ρ on the threshold has a smaller scale b₁. The query passes if ν −
        ρ exceeds z, which has the probability

            (b₂² e^{−z/b₂} − b₁² e^{−z/b₁})/(2b₂² − 2b₁²)

        Without the term e^{−z/b₁}, this is an upper bound, and it is equal to `failure` at the returned z.
        """
        first, second = (noise.scale for noise in self.noises)
        return 1 - second * math.log(2 * self.failure * (1 - (first / second) ** 2))

    def accountants(self, votes: Votes) -> list[Accountant]:
        first, second = (noise.scale for noise in self.noises)
        return [
            DirectAccountant(
                name="basic",
                kind=Kind.WORST_CASE,
                source="Bassily, Thakkar, Thakurta 2018 (T·failure in δ); Lyu, Su, Li 2017, Algorithm 7 (the tests are "
                "1/b₁ + 2c/b₂-DP)",
                epsilon=lambda T, _: 1 / first + 2 * min(self.failures, T) / second,
                failure=lambda T: T * self.failure,
            ),
            self.renyi_accountant(sparse_vector.laplace),
        ]


#: Orders tried; these are few, since every order needs a search for constants.
_ORDERS = conversion.ORDERS[(conversion.ORDERS > 1.05) & (conversion.ORDERS < 1000)][::2]


@dataclass(frozen=True)
class StableSVTGaussian(SparseVector):
    """Sparse vector technique with noise N(0, σ₁²) on one threshold and N(0, σ₂²) on the distance of each query."""

    shown = Shown("stable SVT gaussian", color="purple", marker="h")
    example: ClassVar[Mapping[str, float]] = {"sigma1": 1.0, "sigma2": 1.5, "failure": 1e-8, "cutoff": 40.0}

    sigma1: float = parameter(low=0, above=True)
    sigma2: float = parameter(low=0, above=True)
    failure: float = parameter(low=0, above=True, high=0.5)
    cutoff: float = parameter(low=1, whole=True)

    @property
    def noises(self) -> tuple[Gaussian, Gaussian]:
        return Gaussian(self.sigma1), Gaussian(self.sigma2)

    @property
    def threshold(self) -> float:
        """Return the threshold such that a query with distance d = 1 passes the test with probability `failure`."""
        return 1 - float(np.hypot(self.sigma1, self.sigma2) * ndtri(self.failure))

    def accountants(self, votes: Votes) -> list[Accountant]:
        return [self.renyi_accountant(sparse_vector.gaussian, orders=_ORDERS, refine=False)]
