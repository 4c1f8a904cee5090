"""The exponential mechanism (McSherry & Talwar 2007) on the counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import conversion, exact_accountant, independent
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated
from patebench.accounting.logspace import Array, exp_multiple
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion, Kind
from patebench.core.seeds import Source
from patebench.mechanisms.base import Labels, Mechanism, parameter


@dataclass(frozen=True)
class Exponential(Mechanism):
    """Class j with probability in proportion to exp(ε·n_j/2); each query is ε-DP, and of range ε.

    One vote changes n_a by −1 and n_b by +1. With Z the sum over the classes, the privacy loss of outcome j is
    ln Z′/Z plus ε/2 for a, −ε/2 for b and 0 for the others: it lies in an interval of length ε, which is the η of
    bounded range (Durfee & Rogers 2019). As Z′/Z lies between e^{−ε/2} and e^{ε/2}, and comes as near to either as one
    likes, no smaller ε holds, and a vote that moves counts both ways leaves nothing of the factor 2 that counts which
    only rise would save.
    """

    published = ("bounded-range", Conversion.NONE)
    example: ClassVar[Mapping[str, float]] = {"epsilon": 0.2}

    epsilon: float = parameter(low=0, above=True, high=1e6, words="ε of a query")

    def release(self, votes: Votes, rng: Source) -> Labels:
        below = np.cumsum(np.exp(self.log_outcome_probabilities(votes)[:, :-1]), axis=1)
        below[:, -1] = 1.0
        labels = np.argmax(rng.random(size=votes.queries)[:, None] < below, axis=1)
        return np.asarray(labels, dtype=np.int32)

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        behind = votes.counts - votes.counts.max(axis=1, keepdims=True)
        total = np.log1p(_beside_the_plurality(exp_multiple(self.epsilon / 2, behind), votes.plurality))
        return np.column_stack([self.epsilon / 2 * behind - total[:, None], np.full(votes.queries, -np.inf)])

    def accountants(self, votes: Votes) -> list[Accountant]:
        return [
            DirectAccountant(
                name="bounded-range",
                label="Gaussian DP, PLD",
                kind=Kind.WORST_CASE,
                source="Dong, Durfee, Rogers 2020, optimal non-adaptive composition of T steps of range ε",
                adaptive=False,
                epsilon=lambda T, delta: independent.bounded_range_composition(self.epsilon, T, delta),
            ),
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.WORST_CASE,
                source="Durfee & Rogers 2019 (range ε); Dong, Durfee, Rogers 2020, worst step, its Rényi divergence",
                totals=repeated(lambda orders: independent.bounded_range_rdp(self.epsilon, orders)),
                orders=conversion.ORDERS,
            ),
            *exact_accountant.accountants(votes, self.neighbours),
        ]


def _beside_the_plurality(weights: Array, plurality: NDArray[np.int32]) -> Array:
    """The sum of the others' weights per query: where it is tiny, the plurality's weight of 1 would swallow it."""
    np.put_along_axis(weights, plurality[:, None], 0.0, axis=1)
    result: Array = weights.sum(axis=1)
    return result
