"""What single teachers pay, where they differ in their ε or in the queries that they take part in."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array

#: Which teachers are looked at: those that pay least, in the middle and most, by their basic cost.
WHICH = ("least", "median", "most")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One teacher's cost: `asked` queries of its own, `epsilon` each, and the least ε that they are known to cost."""

    asked: int
    epsilon: float
    composed: float

    @property
    def basic(self) -> float:
        """T_n·ε_n, what distributed PATE states."""
        return self.asked * self.epsilon


@dataclass(frozen=True, kw_only=True)
class Entities:
    """Costs of the first `queries` queries to the teachers of `WHICH`, in that order, whatever the votes are."""

    queries: int
    delta: float
    costs: tuple[Cost, ...]

    @classmethod
    def of(
        cls,
        queries: int,
        delta: float,
        asked: NDArray[np.int64],
        epsilon: Array,
        composed: Callable[[float, int], float],
    ) -> "Entities":
        """From each teacher's own number of queries and ε; `composed(ε, T)` is the least ε that T such queries cost."""
        order = np.argsort(asked * epsilon, kind="stable")
        chosen = [int(order[place]) for place in (0, len(order) // 2, -1)]
        costs = (
            Cost(asked=int(asked[i]), epsilon=float(epsilon[i]), composed=composed(float(epsilon[i]), int(asked[i])))
            for i in chosen
        )
        return cls(queries=queries, delta=delta, costs=tuple(costs))

    def to_json(self) -> dict[str, float | str]:
        """A flat record: `queries`, `delta`, and four numbers for each teacher, such as `asked_least`; ∞ is "inf"."""
        record: dict[str, float | str] = {"queries": self.queries, "delta": self.delta}
        for which, cost in zip(WHICH, self.costs, strict=True):
            each = {"asked": cost.asked, "epsilon": cost.epsilon, "basic": cost.basic, "composed": cost.composed}
            record |= {f"{name}_{which}": "inf" if math.isinf(value) else value for name, value in each.items()}
        return record
