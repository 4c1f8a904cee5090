"""What single teachers pay, where they differ in ε per query or in the queries that they take part in."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.core.text import in_json

#: Which teachers are reported: those whose basic cost is the least, the median and the most.
WHICH = ("least", "median", "most")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One teacher's cost: it takes part in `asked` queries at `epsilon` each, which together cost `composed`."""

    asked: int
    epsilon: float
    composed: float

    @property
    def basic(self) -> float:
        """T_n·ε_n, what distributed PATE states."""
        return self.asked * self.epsilon


@dataclass(frozen=True, kw_only=True)
class TeacherCosts:
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
    ) -> "TeacherCosts":
        """From the number of queries and the ε of each teacher; `composed(ε, T)` is the ε of T queries together."""
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
            record |= {f"{name}_{which}": in_json(value) for name, value in each.items()}
        return record
