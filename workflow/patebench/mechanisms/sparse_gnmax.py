"""One table of counts with Gaussian noise, in which each teacher has at most k votes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from patebench.accounting import conversion, discrete_gaussian, independent
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant
from patebench.accounting.logspace import Array
from patebench.accounting.rdp import gaussian
from patebench.core.bound import Conversion, Kind
from patebench.mechanisms.base import parameter
from patebench.mechanisms.noise import GAUSSIAN, Gaussian
from patebench.mechanisms.sparse_argmax import Cells, SparseArgmax, per_cell


@dataclass(frozen=True)
class SparseGNMax(SparseArgmax):
    """counts + N(0, σ²), √(2k)/σ-GDP as a whole, however many queries there are; with k = 1, one vote for each teacher.

    For k = T it is GNMax with its noisy counts released, at GNMax's cost by Gaussian DP.
    """

    published = ("gdp", Conversion.NONE)
    example: ClassVar[Mapping[str, float]] = {"k": 2.0, "sigma": 10.0}

    sigma: float = parameter(low=0)

    def noise_of(self, teachers: int | None = None, sent: int | None = None) -> Gaussian:
        return Gaussian(self.sigma)

    def worst_case(self, cells: Cells, teachers: int) -> list[Accountant]:
        def curve(orders: Array) -> Array:
            return gaussian(self.sigma, orders) / 2

        return [
            DirectAccountant(
                name="gdp",
                label="Gaussian DP, PLD",
                kind=Kind.WORST_CASE,
                source="Balle & Wang 2018, Theorem 8; Dong, Roth, Su 2022, Theorem 3.2; accounting/sparse.py, 2m cells",
                epsilon=lambda T, delta: self._gdp(cells(T), delta),
                discrete=discrete_gaussian.accountant(
                    lambda T, delta: discrete_gaussian.epsilon(self.sigma, cells(T), delta),
                    "losses (m + Y)/σ², Y a sum of 2m draws (accounting/sparse.py)",
                ),
            ),
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.WORST_CASE,
                source="Mironov 2017, Proposition 7; accounting/sparse.py, L2 distance √(2m)",
                discrete=GAUSSIAN,
                totals=per_cell(cells, curve),
                orders=conversion.ORDERS,
            ),
        ]

    def exact(self, cells: Cells) -> list[Accountant]:
        return [
            DirectAccountant(
                name="exact-per-teacher",
                label="exact per teacher",
                exact=True,
                kind=Kind.DATA_DEPENDENT,
                source="Balle & Wang 2018, Theorem 8: the worst row in place of the teacher's with most votes",
                epsilon=lambda T, delta: self._gdp(cells(T), delta),
            )
        ]

    def _gdp(self, cells: int, delta: float) -> float:
        return independent.gaussian_dp(independent.cells_mu(self.sigma, cells), delta)
