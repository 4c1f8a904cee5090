"""Accountants: a theorem put to work on the queries of one label set, giving bound records.

A mechanism lists its accountants; nobody else needs to know which theorems bound it. What a theorem computes is a
function handed in here, so that this page only composes, converts and labels.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import conversion
from patebench.accounting.logspace import Array
from patebench.core.bound import SMALLEST_DELTA, Bound, Conversion, Kind
from patebench.core.errors import PatebenchError
from patebench.core.text import plural

#: Rényi divergence of the first T queries for each T (rows) at each order (columns).
Totals = Callable[[Sequence[int], Array], Array]

#: How tables head accountants that several mechanisms have.
_LABELS = {"rdp": "Rényi", "gdp": "Gaussian DP, PLD", "pld": "Gaussian DP, PLD"}

_CELLS = 1 << 15  # of one block of queries × orders: what fits a processor's cache is fastest
_ROUNDING = 1e-12  # of a failure probability, relatively


def never(queries: int) -> float:
    """The failure probability of what can not fail."""
    return 0.0


@dataclass(frozen=True, kw_only=True)
class Accountant(ABC):
    """What every bound of this accountant says of itself: its name, the kind of statement, the paper and theorem.

    `label` is how tables head it, by default that of `_LABELS` or its name; those that belong in one column share it.

    Where the theorem holds but for a failure, the failure's probability for the first T queries is paid in δ first.
    """

    name: str
    kind: Kind
    source: str
    #: Why the theorem holds as well when the noise is the discrete distribution of the same scale, or the accountant
    #: that takes its place there; None: it may not hold.
    discrete: "str | Accountant | None" = None
    #: Whether the theorem holds as well when earlier answers choose the later queries.
    adaptive: bool = True
    failure: Callable[[int], float] = never
    label: str = ""
    #: Whether it is a variant of another accountant and of use only beside that one.
    variant: bool = False
    #: Whether it computes the divergence of these votes itself, and not a bound on it.
    exact: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or _LABELS.get(self.name, self.name))

    @property
    def publishable(self) -> bool:
        """Whether what it states may be told: it depends on no votes, or was itself released with noise."""
        return self.kind in (Kind.WORST_CASE, Kind.SANITISED)

    @abstractmethod
    def bounds(self, queries: Sequence[int], delta: float) -> list[Bound]:
        """Bounds at δ on the first T queries, for each T in `queries`."""

    def left(self, delta: float, queries: int) -> float:
        """What is left of δ after the failure; 0 where too little is, and no ε is enough."""
        left = delta - self.failure(queries) * (1 + _ROUNDING)
        return left if left >= SMALLEST_DELTA else 0.0

    def bound(self, epsilon: float, delta: float, queries: int, **how: Any) -> Bound:
        return Bound(
            epsilon=float(epsilon),
            delta=delta,
            queries=queries,
            accountant=self.name,
            kind=self.kind,
            publishable=self.publishable,
            source=self.source,
            label=self.label,
            variant=self.variant,
            exact=self.exact,
            **how,
        )


def valid_for_adaptive_queries(accountants: Sequence[Accountant]) -> list[Accountant]:
    """The accountants that hold as well where earlier answers choose the later queries.

    Data-dependent ones then describe the queries that happened to be put; their source says so.
    """
    kept = [accountant for accountant in accountants if accountant.adaptive]
    words = "; along the queries that were put, as if they had been fixed beforehand"
    return [
        replace(accountant, source=accountant.source + words) if accountant.kind is Kind.DATA_DEPENDENT else accountant
        for accountant in kept
    ]


@dataclass(frozen=True, kw_only=True)
class DirectAccountant(Accountant):
    """An accountant that gives ε for T queries at δ without a curve."""

    epsilon: Callable[[int, float], float]

    def bounds(self, queries: Sequence[int], delta: float) -> list[Bound]:
        return [self.bound(self._epsilon(T, self.left(delta, T)), delta, T) for T in queries]

    def _epsilon(self, queries: int, left: float) -> float:
        return self.epsilon(queries, left) if left > 0 else math.inf


@dataclass(frozen=True, kw_only=True)
class RenyiAccountant(Accountant):
    """An accountant that adds up Rényi curves and converts the sum at the best order.

    With `refine` the search goes on between the orders around the best one; without it only `orders` are tried, as a
    published analysis did.
    """

    name: str = "rdp"
    totals: Totals
    orders: NDArray[np.float64] = field(default_factory=lambda: conversion.ORDERS)
    conversions: tuple[Conversion, ...] = (Conversion.CLASSIC, Conversion.TIGHT)
    refine: bool = True

    def bounds(self, queries: Sequence[int], delta: float) -> list[Bound]:
        curves = self.totals(queries, self.orders)
        if not np.all(curves >= -_ROUNDING):  # nor where it is NaN
            raise PatebenchError(f"the accountant '{self.name}' gave a divergence below 0 or none, which is no bound")
        return [
            self._best(T, curve, how, delta)
            for T, curve in zip(queries, curves, strict=True)
            for how in self.conversions
        ]

    def _best(self, queries: int, curve: Array, how: Conversion, delta: float) -> Bound:
        orders, left = self.orders, self.left(delta, queries)
        if left == 0:
            return self.bound(math.inf, delta, queries, conversion=how)
        epsilons = conversion.convert(how, orders, curve, left)
        best = int(np.argmin(epsilons))
        epsilon, order = epsilons[best], orders[best]
        for _ in range(3 if self.refine and 0 < epsilon < np.inf else 0):
            orders = conversion.between(orders, best)
            epsilons = conversion.convert(how, orders, self.totals([queries], orders)[0], left)
            best = int(np.argmin(epsilons))
            if epsilons[best] < epsilon:
                epsilon, order = epsilons[best], orders[best]
        found = float(order) if np.isfinite(epsilon) else None
        return self.bound(epsilon, delta, queries, conversion=how, order=found)


def valid_for_discrete_noise(accountants: Sequence[Accountant]) -> list[Accountant]:
    """The accountants that hold for discrete noise too, or those in their place, each with the reason in its source."""
    valid = [each.discrete if isinstance(each.discrete, Accountant) else each for each in accountants]
    return [replace(each, source=f"{each.source}; {each.discrete}") for each in valid if each.discrete]


def repeated(curve: Callable[[Array], Array]) -> Totals:
    """Totals of a curve that is the same for every query."""

    def totals(queries: Sequence[int], orders: Array) -> Array:
        result: Array = np.multiply.outer(np.asarray(queries, dtype=np.float64), curve(orders))
        return result

    return totals


def summed(curve: Callable[[Array, Array], Array], rows: Array) -> Totals:
    """Totals of `curve(rows, orders)` (queries × orders), where `rows` holds what the curve needs of each query."""

    def totals(queries: Sequence[int], orders: Array) -> Array:
        block = max(1, _CELLS // len(orders))
        running, done, found = np.zeros(len(orders)), 0, {}
        for T in sorted(set(queries)):
            for start in range(done, T, block):
                running = running + curve(rows[start : min(start + block, T)], orders).sum(axis=0)
            done, found[T] = T, running
        return np.stack([found[T] for T in queries])

    return totals


def check_queries(queries: Sequence[int], available: int) -> list[int]:
    """The numbers of queries to account for, sorted, or one line that says which of them cannot be."""
    if not queries:
        raise PatebenchError("no number of queries was given to account for; name at least one")
    for T in queries:
        if not 1 <= T <= available:
            raise PatebenchError(
                f"{plural(T, 'query')} cannot be accounted for: the votes hold {available}; name 1 to {available}"
            )
    return sorted(set(queries))
