"""The noisy argmax under propose-test-release, which releases labels of all queries at a low cost if votes agree.

The theorem is in `accounting.propose_test_release`, and its proof in docs/explanation/proofs-mechanisms.md. The cost of
a label is bounded by `mechanisms.gap_divergence`. It depends on the gap between the two largest counts of the query.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import conversion
from patebench.accounting.accountant import Accountant, RenyiAccountant
from patebench.accounting.filter import allowance
from patebench.accounting.logspace import Array
from patebench.accounting.propose_test_release import Decision, WholeAccountant, steps
from patebench.accounting.searches import bisect
from patebench.accounting.votes import Votes, gaps, winners
from patebench.core.bound import Kind
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source
from patebench.core.text import at_most
from patebench.mechanisms.base import NO_ANSWER, Answering, Labels, Mechanism, Shown, parameter
from patebench.mechanisms.gap_divergence import gap_divergence
from patebench.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, LatticeNoise, log_integer_argmax_probabilities

#: Rényi orders of the data-dependent cost.
_ORDERS = np.array([2, 4, 7, 12, 20, 33, 54, 90], dtype=np.float64)

#: Search grid of `suggested`: orders, number of values of k (the result of `ProposeTestRelease.steps`), and largest ε.
_TRIED = (3.0, 4.0, 6.0, 8.0, 11.0, 15.0, 20.0, 27.0, 36.0, 50.0)
_STEPS = 24
_LARGEST_EPSILON = 100.0


@dataclass(frozen=True)
class ProposeTestRelease(Mechanism):
    """Propose-test-release: argmax(counts + integer noise) for every query if a test passes, else no answer to any.

    Let k be the least number of teachers whose changed votes may raise the Rényi divergence of the labels above `cost`.
    The test passes with a probability that increases with k. This probability is chosen so that labels and test
    together are (`epsilon`, `failure`)-DP in the worst case.

    If `cost` is too low for the votes, the test almost always fails. A higher `cost` leaves less of `epsilon` for the
    test. `cost` must come from public knowledge, such as votes of other teachers on other data (`suggested`), never
    from the private votes.

    Queries are fixed beforehand, and all labels are one release: the first T labels cost as much as all labels. The
    noise is integer in seeded runs too, as the proof requires.

    Parameters
    ----------
    order : order of the Rényi divergence of the labels
    cost : limit on the Rényi divergence of the labels, which the test checks
    epsilon, failure : ε and δ of labels and test together
    """

    answering: ClassVar[Answering] = Answering.TOGETHER
    discrete: ClassVar[bool] = True

    order: float = parameter(low=1, above=True, high=1e4)
    cost: float = parameter(low=0, above=True, high=1e3)
    epsilon: float = parameter(low=0, above=True, high=1e3, words="ε of all queries")
    failure: float = parameter(low=1e-12, high=0.1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.total < self.cost:
            alone = float(conversion.tight(np.array([self.order]), np.array([self.cost]), self.failure)[0])
            raise PatebenchError(
                f"{type(self).__name__}: cost = {self.cost:g} at order = {self.order:g} gives ε = {at_most(alone)} at δ"
                f" = {self.failure:g}, above epsilon = {self.epsilon:g}; raise 'epsilon', or lower 'cost'"
            )

    @property
    @abstractmethod
    def noise(self) -> LatticeNoise:
        """Return the noise of each count."""

    @property
    def total(self) -> float:
        """Return the largest Rényi divergence of labels and test together that implies (`epsilon`, `failure`)-DP.

        `order` is the order of this divergence.
        """
        return float(allowance(np.array([self.order]), self.epsilon, self.failure)[0])

    @property
    def decision(self) -> Decision:
        return Decision(self.order, self.cost, self.total, self.failure)

    def gap_cost(self, orders: Sequence[float], teachers: int, classes: int) -> Array:
        """Return a bound on the Rényi divergence of one label, (orders, `teachers` + 1).

        Row i is for `orders[i]`. Column γ is for votes whose two largest counts differ by at least γ.
        """
        return gap_divergence(self.noise, orders, teachers, classes)

    def steps(self, votes: Votes) -> int | None:
        """Return the least number of teachers whose changed votes may raise the labels' Rényi divergence above `cost`.

        The result is None if no number of teachers can.
        """
        (cost,) = self.gap_cost([self.order], votes.teachers, votes.classes)
        return steps(gaps(votes.counts), cost, self.cost)

    def pass_probability(self, votes: Votes) -> float:
        """Return the probability that the test passes; it depends on the votes and must not be published."""
        return self.decision.probability(self.steps(votes))

    def release(self, votes: Votes, rng: Source) -> Labels:
        labels = winners(votes.counts + self.noise.draw(votes.counts.shape, rng))
        passes = float(rng.random(1)[0]) < self.pass_probability(votes)
        return labels if passes else np.full_like(labels, NO_ANSWER)

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        """Return ln Pr of each label and of "no answer" for each query alone, (queries, classes + 1).

        Jointly, either all queries are answered or none is.
        """
        answers = log_integer_argmax_probabilities(votes.counts, self.noise.probabilities(votes.teachers))
        p = self.pass_probability(votes)
        with np.errstate(divide="ignore"):
            return np.column_stack([answers + np.log(p), np.full(votes.queries, np.log(1 - p))])

    def accountants(self, votes: Votes) -> list[Accountant]:
        proved = "proved in accounting/propose_test_release and mechanisms/gap_divergence"
        return [
            WholeAccountant(
                name="rdp",
                kind=Kind.WORST_CASE,
                source=f"propose-test-release with the labels' divergence (Redberg, Zhu, Wang 2023), {proved}",
                discrete="discrete noise: the proof is for it",
                adaptive=False,
                totals=lambda queries, orders: np.full((len(queries), len(orders)), self.total),
                orders=np.array([self.order]),
                refine=False,
                failure=lambda _: self.failure,
            ),
            RenyiAccountant(
                kind=Kind.DATA_DEPENDENT,
                source=f"divergence of the decision, composed with that of labels by their gaps, {proved}",
                adaptive=False,
                totals=lambda queries, orders: self._total_cost(votes, queries, orders),
                orders=np.union1d(_ORDERS, [self.order]),
                refine=False,
            ),
        ]

    def _total_cost(self, votes: Votes, queries: Sequence[int], orders: Array) -> Array:
        """Return data-dependent Rényi bounds for the test and the first T labels, for T in `queries`: (T × orders)."""
        costs = self.gap_cost(tuple(orders), votes.teachers, votes.classes)
        labels = np.cumsum(costs[:, gaps(votes.counts)], axis=1)[:, np.array(queries) - 1].T
        return self.decision.curve(self.steps(votes), labels, orders)


def suggested(
    kind: type[ProposeTestRelease],
    public: Votes,
    delta: float,
    *,
    probability: float = 0.98,
    headroom: float = 1.3,
    **noise: float,
) -> ProposeTestRelease:
    """Return the mechanism with the least ε at `delta` whose test passes for the votes `public` with `probability`.

    Parameters
    ----------
    kind : class of the mechanism
    public : votes that need no privacy, such as those of the same number of teachers on similar public data
    delta : δ of the release
    probability : least probability with which the test must pass, between 0 and 1
    headroom : factor, at least 1, by which the cost of the public votes is multiplied, since private votes may be less
        unanimous
    noise : the parameters of `kind` other than order, cost, epsilon and failure

    Raises
    ------
    PatebenchError
        If no ε up to 100 suffices.
    """
    if not 0 < probability < 1:
        raise PatebenchError(f"probability = {probability:g} is out of range; give a value between 0 and 1")
    if not headroom >= 1:
        raise PatebenchError(f"headroom = {headroom:g} is out of range; give a value of at least 1")
    best = None
    template = kind(order=2.0, cost=1e-9, epsilon=_LARGEST_EPSILON, failure=delta, **noise)
    for order, gap_cost in zip(_TRIED, template.gap_cost(_TRIED, public.teachers, public.classes), strict=True):
        gap = gaps(public.counts)
        for k in np.unique(np.geomspace(1, max(1, public.teachers // 2), _STEPS).round().astype(int)).tolist():
            cost = _round_up(headroom * float(np.sum(gap_cost[np.maximum(gap - 2 * k + 2, 0)])))
            epsilon = _least_epsilon(order, cost, delta, k, probability, best.epsilon if best else _LARGEST_EPSILON)
            if epsilon is not None:
                best = kind(order=order, cost=cost, epsilon=epsilon, failure=delta, **noise)
    if best is None:
        raise PatebenchError(
            f"no ε up to {_LARGEST_EPSILON:g} suffices for the test to pass on the public votes with a probability of"
            f" {probability:g}; add noise, or use fewer queries"
        )
    return best


def _least_epsilon(order: float, cost: float, delta: float, k: int, probability: float, limit: float) -> float | None:
    """Return the least ε of the release at which the test passes with `probability`; None if it is not below `limit`.

    `k` is the number of teachers that must change their votes to raise the labels' Rényi divergence above `cost`.
    """

    def enough(epsilon: float) -> bool:
        total = float(allowance(np.array([order]), epsilon, delta)[0])
        return total >= cost and Decision(order, cost, total, delta).probability(k) >= probability

    if not enough(limit * (1 - 1e-3)):
        return None
    least = _round_up(bisect(enough, limit * (1 - 1e-3), 0.0, near=1e-4))
    return least if least < limit else None


def _round_up(value: float) -> float:
    """Return `value`, rounded up to four significant digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.ceil(value / step) * step:.4g}")


@dataclass(frozen=True)
class PtrGNMax(ProposeTestRelease):
    """Propose-test-release with discrete Gaussian noise of scale `sigma` on every count."""

    shown = Shown("PTR GNMax", color="blue", marker="D")
    example: ClassVar[Mapping[str, float]] = {
        "order": 4.0, "cost": 5.0, "epsilon": 10.0, "failure": 1e-6, "sigma": 20.0,
    }  # fmt: skip

    sigma: float = parameter(low=0.01, high=1e6)

    @property
    def noise(self) -> DiscreteGaussian:
        return DiscreteGaussian(self.sigma)


@dataclass(frozen=True)
class PtrLNMax(ProposeTestRelease):
    """Propose-test-release with discrete Laplace noise of scale 1/`gamma` on every count."""

    shown = Shown("PTR LNMax", color="orange", marker="D")
    example: ClassVar[Mapping[str, float]] = {
        "order": 6.0, "cost": 6.0, "epsilon": 9.0, "failure": 1e-6, "gamma": 0.05,
    }  # fmt: skip

    gamma: float = parameter(low=1e-6, high=100)

    @property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(1 / self.gamma)
