"""One table of counts in which each teacher has at most k votes, and to which every teacher adds its share of noise.

This is the plain path, as `distributed_gnmax.py` is. The theorem is in `accounting/distributed.py`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import conversion, discrete_gaussian, distributed
from patebench.accounting.accountant import Accountant, RenyiAccountant
from patebench.accounting.votes import Votes, capped
from patebench.core.bound import Conversion, Kind
from patebench.core.errors import PatebenchError
from patebench.mechanisms.noise import Gaussian
from patebench.mechanisms.noise_shares import NoiseShares
from patebench.mechanisms.sparse_argmax import Cells, SparseArgmax, per_cell


@dataclass(frozen=True)
class DistributedSparseGNMax(NoiseShares, SparseArgmax):
    """Counts of each teacher's first k votes, each with n discrete Gaussian shares of variance σ²/(n − t).

    A teacher adds its share to every cell, also where it keeps silent; t is the tolerance. For k = T it is
    DistributedGNMax at its cost, with its noisy counts released.
    """

    published = ("rdp", Conversion.TIGHT)
    example: ClassVar[Mapping[str, float]] = {"k": 2.0, "sigma": 20.0, "tolerance": 5.0}

    def counted(self, votes: NDArray[np.integer], teachers: NDArray[np.integer]) -> NDArray[np.integer]:
        return capped(votes, int(self.k), places=teachers)

    def noise_of(self, teachers: int | None = None, sent: int | None = None) -> Gaussian:
        """The Gaussian of the same variance: discrete shares above scale ½ have its density but for next to nothing."""
        if teachers is None:
            raise PatebenchError(
                f"the noise of {type(self).__name__} depends on the number of teachers, and nothing tells it; "
                "give labels that do"
            )
        return Gaussian(self.share_scale(teachers) * math.sqrt(teachers if sent is None else sent))

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        """Of each label by itself, given all votes: noise is independent."""
        from patebench.mechanisms.integer_noise import log_argmax_probabilities

        answers = log_argmax_probabilities(self.counts(votes), self.whole_noise(votes.teachers))
        return np.column_stack([answers, np.full(votes.queries, -np.inf)])

    def worst_case(self, cells: Cells, teachers: int) -> list[Accountant]:
        needed = self.needed(teachers)
        return [
            discrete_gaussian.accountant(
                lambda T, delta: distributed.counts_epsilon(self.sigma, needed, cells(T) // 2, delta),
                "losses (m + Y)/σ², Y a sum of 2m draws (accounting/sparse.py); Kairouz, Liu, Steinke 2021, "
                "Corollary 12, for n − t shares",
            ),
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.WORST_CASE,
                source="Kairouz, Liu, Steinke 2021, Theorem 1, for 2m cells (Δ₂ = √(2m), d = 2m; accounting/sparse.py) "
                "and n − t shares",
                discrete=discrete_gaussian.DISCRETE,
                totals=per_cell(cells, lambda orders: distributed.counts(self.sigma, needed, orders) / 2),
                orders=conversion.ORDERS,
            ),
        ]
