"""The stable argmax in the sparse vector technique with Gaussian noise, after Zhu & Wang 2020."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from patebench.accounting import conversion, sparse_vector
from patebench.accounting.accountant import Accountant, RenyiAccountant
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.mechanisms.base import parameter
from patebench.mechanisms.noise import Gaussian
from patebench.mechanisms.sparse_vector import SparseVector

#: Each order has constants to be found, so only so many are tried.
_ORDERS = conversion.ORDERS[(conversion.ORDERS > 1.05) & (conversion.ORDERS < 1000)][::2]


@dataclass(frozen=True)
class StableSVTGaussian(SparseVector):
    """N(0, σ₁²) on the threshold, drawn once, and N(0, σ₂²) on the distance of every query."""

    example: ClassVar[Mapping[str, float]] = {"sigma1": 1.0, "sigma2": 1.5, "failure": 1e-8, "cutoff": 40.0}

    sigma1: float = parameter(low=0, above=True)
    sigma2: float = parameter(low=0, above=True)
    failure: float = parameter(low=0, above=True, high=0.5)
    cutoff: float = parameter(low=1)

    @property
    def noises(self) -> tuple[Gaussian, Gaussian]:
        return Gaussian(self.sigma1), Gaussian(self.sigma2)

    @property
    def threshold(self) -> float:
        """1 + z with Pr[ν − ρ > z] = failure."""
        return 1 - float(np.hypot(self.sigma1, self.sigma2) * ndtri(self.failure))

    def accountants(self, votes: Votes) -> list[Accountant]:
        return [
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.WORST_CASE,
                source="Bassily, Thakkar, Thakurta 2018 (T·failure in δ); Rényi divergence of the sparse vector "
                "technique, proved in accounting/sparse_vector",
                totals=lambda queries, orders: np.stack(
                    [sparse_vector.gaussian(self.sigma1, self.sigma2, T, self.failures, orders) for T in queries]
                ),
                orders=_ORDERS,
                refine=False,
                failure=lambda T: T * self.failure,
            )
        ]
