"""Distributed GNMax: every teacher adds its own share of the noise, and the noisy counts themselves are revealed.

This is the plain path: one party sees all votes and sums them with the shares. `patebench.secure` computes the same
counts from the same shares without anybody seeing a vote.
"""

import math
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
from patebench.core.entropy import discrete_normal
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source
from patebench.core.words import plural
from patebench.mechanisms.base import Labels, Mechanism, parameter


@dataclass(frozen=True)
class DistributedGNMax(Mechanism):
    """argmax of noisy counts, each with n discrete Gaussian shares of variance σ²/(n − t), t the tolerance.

    So the noise that a teacher's vote hides in has variance σ² even if t other teachers tell what they added, or never
    send. Labels follow from the noisy counts, so nothing that depends on the votes can make them cheaper.
    """

    published = ("rdp", Conversion.TIGHT)
    discrete = True
    cost_needs_teachers = True
    example: ClassVar[Mapping[str, float]] = {"sigma": 20.0, "tolerance": 5.0}
    secure = True

    sigma: float = parameter(low=0)
    tolerance: float = parameter(low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tolerance != int(self.tolerance):
            raise PatebenchError(f"DistributedGNMax: tolerance = {self.tolerance:g} is no number of teachers")

    def needed(self, teachers: int) -> int:
        """How many teachers' shares make up the promised noise."""
        needed = teachers - int(self.tolerance)
        if needed < 1:
            raise PatebenchError(
                f"of {plural(teachers, 'teacher')} {self.tolerance:g} can not be missing; give a smaller tolerance"
            )
        return needed

    def share(self, teachers: int, shape: tuple[int, ...], source: Source) -> NDArray[np.int64]:
        """The noise that one of so many teachers adds."""
        return discrete_normal(source, self.sigma / math.sqrt(self.needed(teachers)), shape)

    def noisy_counts(self, votes: Votes, rng: Source) -> Counts:
        """Counts with every teacher's share of the noise, each drawn from a source of its own."""
        noisy = votes.counts.copy()
        for source in rng.spawn(votes.teachers):
            noisy += self.share(votes.teachers, noisy.shape, source)
        return noisy

    def release(self, votes: Votes, rng: Source) -> Labels:
        return plurality(self.noisy_counts(votes, rng))

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        from patebench.mechanisms.integer_noise import log_argmax_probabilities, log_sum_of_normals

        share = self.sigma / math.sqrt(self.needed(votes.teachers))
        answers = log_argmax_probabilities(votes.counts, log_sum_of_normals(share, votes.teachers))
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


def plurality(noisy: Counts) -> Labels:
    """The class with the largest noisy count per query, the lowest of tied ones."""
    return np.asarray(np.argmax(noisy, axis=1), dtype=np.int32)
