"""The immutable noisy argmax of NZC (Sun et al. 2020, section 3.3) with Laplace noise, as published."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from patebench.accounting import conversion, independent
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated
from patebench.core.bound import Conversion, Kind
from patebench.mechanisms.base import parameter
from patebench.mechanisms.immutable_argmax import ENDLESS, ImmutableArgmax
from patebench.mechanisms.noise import Laplace


@dataclass(frozen=True)
class ImmutableLNMax(ImmutableArgmax):
    """argmax(counts + c·[largest] + Lap(1/γ)), claimed to be 2γ-DP per query whatever c is (NZC, Theorem 4)."""

    published = ("moments", Conversion.CLASSIC)
    example: ClassVar[Mapping[str, float]] = {"c": 5.0, "gamma": 0.05, "distance": 0.0}

    c: float = parameter(low=0, high=1e300)
    gamma: float = parameter(low=0, above=True)
    distance: float = parameter(low=0)

    @property
    def noise(self) -> Laplace:
        return Laplace(1 / self.gamma)

    def claimed(self) -> list[Accountant]:
        return [
            DirectAccountant(
                name="strong-composition",
                label="strong composition",
                kind=Kind.CLAIMED,
                source="NZC, section 4.2, after Theorem 4",
                epsilon=lambda T, delta: independent.strong_composition(self.gamma, T, delta),
            ),
            RenyiAccountant(
                name="moments",
                kind=Kind.CLAIMED,
                source="NZC, Theorem 4, (5), and the tail bound of section 4.1, at every moment",
                totals=repeated(lambda orders: 2 * self.gamma * self.gamma * orders),
                orders=conversion.CLAIMED_ORDERS,
                conversions=(Conversion.CLASSIC,),
            ),
        ]

    def worst_case(self) -> Accountant:
        epsilon = math.inf if self.certain else 2 * (self.c + 1) * self.gamma
        proof = "Laplace mechanism with L1 sensitivity 2(c + 1); Kairouz, Oh, Viswanath 2015, Theorem 3.3"
        return DirectAccountant(
            name="pld",
            label="Gaussian DP, PLD",
            kind=Kind.WORST_CASE,
            source=ENDLESS if self.certain else proof,
            epsilon=lambda T, delta: independent.pure_composition(epsilon, T, delta),
        )
