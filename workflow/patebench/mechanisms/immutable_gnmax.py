"""The immutable noisy argmax of NZC (Sun et al. 2020, section 3.3) with Gaussian noise, as published."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from patebench.accounting import conversion, independent, rdp
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated
from patebench.core.bound import Conversion, Kind
from patebench.mechanisms.base import parameter
from patebench.mechanisms.immutable_argmax import ENDLESS, ImmutableArgmax
from patebench.mechanisms.noise import Gaussian


@dataclass(frozen=True)
class ImmutableGNMax(ImmutableArgmax):
    """argmax(counts + c·[largest] + N(0, σ²)), claimed to cost what GNMax(σ) does, whatever c is (NZC, section 4.2)."""

    published = ("rdp", Conversion.CLASSIC)
    example: ClassVar[Mapping[str, float]] = {"c": 5.0, "sigma": 20.0, "distance": 0.0}

    c: float = parameter(low=0, high=1e300)
    sigma: float = parameter(low=0)
    distance: float = parameter(low=0)

    @property
    def noise(self) -> Gaussian:
        return Gaussian(self.sigma)

    def claimed(self) -> list[Accountant]:
        return [
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.CLAIMED,
                source="NZC, section 4.2, which refers to Scalable PATE, Proposition 8",
                totals=repeated(lambda orders: rdp.gaussian(self.sigma, orders)),
                orders=conversion.CLAIMED_ORDERS,
                conversions=(Conversion.CLASSIC,),
            )
        ]

    def worst_case(self) -> Accountant:
        sigma = 0.0 if self.certain else self.sigma / (self.c + 1)
        proof = "Balle & Wang 2018, Theorem 8; Dong, Roth, Su 2022, Corollary 3.3, with L2 sensitivity √2·(c + 1)"
        return DirectAccountant(
            name="gdp",
            label="Gaussian DP, PLD",
            kind=Kind.WORST_CASE,
            source=ENDLESS if self.certain else proof,
            epsilon=lambda T, delta: independent.gaussian_dp(independent.gnmax_mu(sigma, T), delta),
        )
