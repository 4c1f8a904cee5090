"""The stable argmax in the sparse vector technique with Laplace noise (Bassily, Thakkar, Thakurta 2018)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from patebench.accounting import conversion, sparse_vector
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.mechanisms.base import parameter
from patebench.mechanisms.noise import Laplace
from patebench.mechanisms.sparse_vector import SparseVector


@dataclass(frozen=True)
class StableSVT(SparseVector):
    """Laplace noise of scale b₁ on the threshold and b₂ on the distances; all tests together are ε-DP.

    1/b₁ + 2c/b₂ = ε for c = `cutoff`, shared out as 1 : (2c)^{2/3}, which makes the least noise of a comparison (Lyu,
    Su, Li 2017, section 4.2). The paper draws the threshold anew after each unstable query and composes c runs; here
    one threshold is for all, and costs once.
    """

    example: ClassVar[Mapping[str, float]] = {"epsilon": 120.0, "failure": 1e-8, "cutoff": 40.0}

    epsilon: float = parameter(low=0, above=True, high=1e6, words="ε of all queries")
    failure: float = parameter(low=0, above=True, high=0.5)
    cutoff: float = parameter(low=1)

    @property
    def noises(self) -> tuple[Laplace, Laplace]:
        share = (2 * self.cutoff) ** (2 / 3)
        whole = (1 + share) / self.epsilon
        return Laplace(whole), Laplace(2 * self.cutoff / share * whole)

    @property
    def threshold(self) -> float:
        """1 + z with Pr[ν − ρ > z] = (b₂² e^{−z/b₂} − b₁² e^{−z/b₁})/(2b₂² − 2b₁²) ≤ failure, b₁ < b₂."""
        first, second = (noise.scale for noise in self.noises)
        return 1 - second * math.log(2 * self.failure * (1 - (first / second) ** 2))

    def accountants(self, votes: Votes) -> list[Accountant]:
        first, second = (noise.scale for noise in self.noises)
        stable = "Bassily, Thakkar, Thakurta 2018 (T·failure in δ)"
        return [
            DirectAccountant(
                name="basic",
                kind=Kind.WORST_CASE,
                source=f"{stable}; Lyu, Su, Li 2017, Algorithm 7 (the tests are 1/b₁ + 2c/b₂-DP)",
                epsilon=lambda T, _: 1 / first + 2 * min(self.failures, T) / second,
                failure=lambda T: T * self.failure,
            ),
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.WORST_CASE,
                source=f"{stable}; Rényi divergence of the sparse vector technique, proved in accounting/sparse_vector",
                totals=lambda queries, orders: np.stack(
                    [sparse_vector.laplace(first, second, T, self.failures, orders) for T in queries]
                ),
                orders=conversion.ORDERS,
                failure=lambda T: T * self.failure,
            ),
        ]
