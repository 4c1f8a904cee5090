"""Distributed GNMax: every teacher adds its own share of the noise, and the noisy counts themselves are revealed.

This is the plain path: one party sees all votes and sums them with the shares. `patebench.secure` computes the same
counts from the same shares without anybody seeing a vote.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import conversion, discrete_gaussian, distributed
from patebench.accounting.accountant import Accountant, RenyiAccountant, repeated
from patebench.accounting.filter import PerQueryCost
from patebench.accounting.votes import Counts, Votes
from patebench.core.bound import Conversion, Kind
from patebench.core.seeds import Source
from patebench.mechanisms.base import Labels
from patebench.mechanisms.noise_shares import NoiseShares, plurality


@dataclass(frozen=True)
class DistributedGNMax(NoiseShares):
    """argmax of noisy counts, each with n discrete Gaussian shares of variance σ²/(n − t), t the tolerance.

    Labels follow from the noisy counts, so nothing that depends on the votes can make them cheaper.
    """

    published = ("rdp", Conversion.TIGHT)
    example: ClassVar[Mapping[str, float]] = {"sigma": 20.0, "tolerance": 5.0}

    def counted(self, votes: NDArray[np.integer], teachers: NDArray[np.integer]) -> NDArray[np.integer]:
        return votes

    def noisy_counts(self, votes: Votes, rng: Source) -> Counts:
        """All that is revealed: what the secure path opens from the same draws."""
        return self.noisy(votes.counts, votes.teachers, rng)

    def release(self, votes: Votes, rng: Source) -> Labels:
        return plurality(self.noisy_counts(votes, rng))

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        from patebench.mechanisms.integer_noise import log_argmax_probabilities

        answers = log_argmax_probabilities(votes.counts, self.whole_noise(votes.teachers))
        return np.column_stack([answers, np.full(votes.queries, -np.inf)])

    def per_query_cost(self, teachers: int, classes: int) -> PerQueryCost:
        needed = self.needed(teachers)
        return PerQueryCost(lambda orders: distributed.counts(self.sigma, needed, orders))

    def accountants(self, votes: Votes) -> list[Accountant]:
        needed = self.needed(votes.teachers)
        return [
            discrete_gaussian.accountant(
                lambda T, delta: distributed.counts_epsilon(self.sigma, needed, T, delta),
                "losses (T + Y)/σ², Y a sum of 2T draws; Kairouz, Liu, Steinke 2021, Corollary 12, for n − t shares",
            ),
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.WORST_CASE,
                source="Kairouz, Liu, Steinke 2021, Theorem 1, for noisy counts (Δ₂ = √2, d = 2) and n − t shares",
                discrete=discrete_gaussian.DISCRETE,
                totals=repeated(self.per_query_cost(votes.teachers, votes.classes).answer),
                orders=conversion.ORDERS,
            ),
        ]
