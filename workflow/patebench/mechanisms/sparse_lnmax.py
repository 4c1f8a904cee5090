"""One table of counts with Laplace noise, in which each teacher has at most k votes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from patebench.accounting import conversion, independent, rdp
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant
from patebench.core.bound import Conversion, Kind
from patebench.mechanisms.base import parameter
from patebench.mechanisms.noise import LAPLACE, Laplace
from patebench.mechanisms.sparse_argmax import Cells, SparseArgmax, per_cell


@dataclass(frozen=True)
class SparseLNMax(SparseArgmax):
    """counts + Lap(1/γ), 2kγ-DP as a whole, however many queries there are.

    Each cell that changes, changes by one, so it is γ-DP, with discrete Laplace noise as well. Cells that do not change
    cost nothing.
    """

    published = ("basic", Conversion.NONE)
    example: ClassVar[Mapping[str, float]] = {"k": 2.0, "gamma": 0.05}

    gamma: float = parameter(low=0, above=True)

    def noise_of(self, teachers: int | None = None, sent: int | None = None) -> Laplace:
        return Laplace(1 / self.gamma)

    def worst_case(self, cells: Cells, teachers: int) -> list[Accountant]:
        theorem = "accounting/sparse.py, 2m cells that are γ-DP each"
        any_noise = RenyiAccountant(
            name="rdp",
            label="Rényi",
            kind=Kind.WORST_CASE,
            source=f"{theorem}; Mironov 2017, Proposition 10",
            discrete=LAPLACE,
            totals=per_cell(cells, lambda orders: rdp.pure(self.gamma, orders)),
            orders=conversion.ORDERS,
        )
        return [
            DirectAccountant(
                name="basic",
                kind=Kind.WORST_CASE,
                source=f"Dwork & Roth 2014, Theorems 3.6 and 3.16: 2mγ; {theorem}",
                discrete=LAPLACE,
                epsilon=lambda T, delta: cells(T) * self.gamma,
            ),
            DirectAccountant(
                name="pld",
                label="Gaussian DP, PLD",
                kind=Kind.WORST_CASE,
                source=f"{theorem}; Kairouz, Oh, Viswanath 2015, Theorem 3.3",
                discrete=LAPLACE,
                epsilon=lambda T, delta: independent.pure_composition(self.gamma, cells(T), delta),
            ),
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.WORST_CASE,
                source="Mironov 2017, Proposition 6, for 2m cells (accounting/sparse.py)",
                discrete=any_noise,
                totals=per_cell(cells, lambda orders: rdp.laplace_cell(self.gamma, orders)),
                orders=conversion.ORDERS,
            ),
        ]

    def exact(self, cells: Cells) -> list[Accountant]:
        return [
            RenyiAccountant(
                name="exact-per-teacher",
                label="exact per teacher",
                exact=True,
                kind=Kind.DATA_DEPENDENT,
                source="Mironov 2017, Proposition 6: the worst row in place of the teacher's with most votes",
                totals=per_cell(cells, lambda orders: rdp.laplace_cell(self.gamma, orders)),
                orders=conversion.ORDERS,
            )
        ]
