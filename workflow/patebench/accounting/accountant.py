"""Accountants, each of which bounds ε for the labels of the first T queries by one theorem.

A mechanism creates an accountant with the formula of the theorem, such as the Rényi curve of a query. This module adds
up Rényi divergences over queries, converts the sums to ε and returns bound records.
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
from patebench.core.blocks import blocks
from patebench.core.bound import SMALLEST_DELTA, Bound, Conversion, Kind
from patebench.core.errors import PatebenchError
from patebench.core.text import plural

#: Function of (numbers of queries T, orders) that returns the Rényi divergence of the first T queries (numbers of
#: queries × orders).
Totals = Callable[[Sequence[int], Array], Array]

#: Name of an accountant that several mechanisms share → column head in tables.
_LABELS = {"rdp": "Rényi", "gdp": "Gaussian DP, PLD", "pld": "Gaussian DP, PLD"}

_CELLS = 1 << 15  # queries × orders per block, chosen to fit a processor's cache
_ROUNDING = 1e-12  # relative rounding error of a failure probability


@dataclass(frozen=True, kw_only=True)
class Accountant(ABC):
    """Base class of accountants. An accountant bounds ε by one theorem.

    Parameters
    ----------
    name : name of the accountant
    kind : kind of its bounds: worst case, data-dependent or sanitised
    source : citation of the paper and the theorem
    discrete : bound for discrete noise of the same scale. If it is a text, the theorem still holds, and the text states
        why. If it is an accountant, that accountant is used instead. If it is None, no bound is known
    adaptive : True if the theorem also holds when earlier answers determine later queries
    failure : function of T that returns the probability that the theorem's bound does not hold for the first T queries;
        this probability is subtracted from δ
    label : heading of the accountant's column in tables, by default derived from `name`; accountants with the same
        label share one column
    variant : True if this accountant only serves for comparison with a similar one
    exact : True if the accountant computes the exact data-dependent divergence instead of an upper bound
    added : accountant by the same theorem for neighbours that add or remove a teacher's votes; None if there is none.
        The bounds of this accountant itself are for neighbours that replace a teacher's votes
    """

    name: str
    kind: Kind
    source: str
    discrete: "str | Accountant | None" = None
    adaptive: bool = True
    failure: Callable[[int], float] = lambda queries: 0.0
    label: str = ""
    variant: bool = False
    exact: bool = False
    added: "Accountant | None" = None

    @property
    def publishable(self) -> bool:
        """Return True if the bounds are worst-case or sanitised, so that their ε may be published."""
        return self.kind in (Kind.WORST_CASE, Kind.SANITISED)

    @abstractmethod
    def bounds(self, queries: Sequence[int], delta: float) -> list[Bound]:
        """Return the bounds on ε at `delta`: for each T in `queries`, one or more bounds for the first T queries."""

    def bounds_of_both(self, queries: Sequence[int], delta: float) -> list[Bound]:
        """Return the bounds on ε at `delta` for two neighbour relations.

        In a bound, the field `epsilon` is ε if neighbours replace a teacher's votes. The field `add_or_remove` is ε if
        neighbours add or remove a teacher's votes; it is None if the accountant's `added` is None.
        """
        bounds = self.bounds(queries, delta)
        if self.added is None:
            return bounds
        others = self.added.bounds(queries, delta)
        return [replace(bound, add_or_remove=other.epsilon) for bound, other in zip(bounds, others, strict=True)]

    def remaining_delta(self, delta: float, queries: int) -> float:
        """Return `delta` minus the failure probability of the theorem on the first `queries` queries.

        This is the δ for the conversion to ε. If the difference is below `SMALLEST_DELTA`, the result is 0, and ε is
        then ∞.
        """
        remaining = delta - self.failure(queries) * (1 + _ROUNDING)
        return remaining if remaining >= SMALLEST_DELTA else 0.0

    def bound(self, epsilon: float, delta: float, queries: int, **fields: Any) -> Bound:
        return Bound(
            epsilon=float(epsilon),
            delta=delta,
            queries=queries,
            accountant=self.name,
            kind=self.kind,
            publishable=self.publishable,
            source=self.source,
            label=self.label or _LABELS.get(self.name, self.name),
            variant=self.variant,
            exact=self.exact,
            **fields,
        )


def valid_for_adaptive_queries(accountants: Sequence[Accountant]) -> list[Accountant]:
    """Return the accountants whose theorems also hold when earlier answers determine later queries.

    In the result, the citation (`source`) of each data-dependent accountant is extended by a note: ε is computed as if
    the queries had been fixed beforehand.
    """
    note = "; along the queries that were put, as if they had been fixed beforehand"
    return [
        replace(accountant, source=accountant.source + note) if accountant.kind is Kind.DATA_DEPENDENT else accountant
        for accountant in accountants
        if accountant.adaptive
    ]


@dataclass(frozen=True, kw_only=True)
class DirectAccountant(Accountant):
    """Accountant that computes ε without a Rényi curve: `epsilon(T, δ)` returns the ε of the first T queries at δ."""

    epsilon: Callable[[int, float], float]

    def bounds(self, queries: Sequence[int], delta: float) -> list[Bound]:
        return [self.bound(self._epsilon(T, self.remaining_delta(delta, T)), delta, T) for T in queries]

    def _epsilon(self, queries: int, remaining: float) -> float:
        return self.epsilon(queries, remaining) if remaining > 0 else math.inf


@dataclass(frozen=True, kw_only=True)
class RenyiAccountant(Accountant):
    """Accountant that adds up Rényi curves over queries and converts the sum to ε at the best order.

    Parameters
    ----------
    totals : function of (numbers of queries T, orders) that returns the Rényi divergences of the first T queries
    orders : orders that are tried
    conversions : conversions to ε, each of which gives one bound
    refine : if True, further orders around the best one are tried; if False, `orders` only, as in published analyses
    """

    name: str = "rdp"
    totals: Totals
    orders: NDArray[np.float64] = field(default_factory=lambda: conversion.ORDERS)
    conversions: tuple[Conversion, ...] = (Conversion.CLASSIC, Conversion.TIGHT)
    refine: bool = True

    def curves(self, queries: Sequence[int], delta: float) -> tuple[Array, Array]:
        """Return the Rényi orders that are tried for the least ε at `delta`, and the divergences at these orders.

        The divergences (numbers T × orders) have one row for each T in `queries`: the Rényi divergence of the first T
        queries.
        """
        return self.orders, self.totals(queries, self.orders)

    def bounds(self, queries: Sequence[int], delta: float) -> list[Bound]:
        orders, curves = self.curves(queries, delta)
        if not np.all(curves >= -_ROUNDING):  # also false for NaN
            raise PatebenchError(
                f"the accountant '{self.name}' computed a Rényi divergence that is negative or not a number; correct "
                "its method 'totals'"
            )
        return [
            self._best_bound(T, orders, curve, how, delta)
            for T, curve in zip(queries, curves, strict=True)
            for how in self.conversions
        ]

    def _best_bound(self, queries: int, orders: Array, curve: Array, how: Conversion, delta: float) -> Bound:
        remaining = self.remaining_delta(delta, queries)
        if remaining == 0:
            return self.bound(math.inf, delta, queries, conversion=how)
        epsilons = conversion.convert(how, orders, curve, remaining)
        best = int(np.argmin(epsilons))
        epsilon, order = epsilons[best], orders[best]
        for _ in range(3 if self.refine and 0 < epsilon < np.inf else 0):
            orders = conversion.between(orders, best)
            epsilons = conversion.convert(how, orders, self.totals([queries], orders)[0], remaining)
            best = int(np.argmin(epsilons))
            if epsilons[best] < epsilon:
                epsilon, order = epsilons[best], orders[best]
        return self.bound(epsilon, delta, queries, conversion=how, order=float(order) if np.isfinite(epsilon) else None)


def valid_for_discrete_noise(accountants: Sequence[Accountant]) -> list[Accountant]:
    """Return the accountants to use for discrete noise; their citations (`source`) state why they are valid.

    The field `discrete` of each accountant decides. If it is another accountant, that accountant is returned instead.
    If it is None, the accountant is left out.
    """
    valid = [item.discrete if isinstance(item.discrete, Accountant) else item for item in accountants]
    return [replace(item, source=f"{item.source}; {item.discrete}") for item in valid if item.discrete]


def with_added(accountants: Sequence[Accountant], added: Sequence[Accountant]) -> list[Accountant]:
    """Return copies of `accountants` that also bound ε for neighbours that add or remove a teacher's votes.

    `added[i]` bounds ε for these neighbours, by the same theorem as `accountants[i]`. Copy i stores `added[i]` in its
    field `added`. If `accountants[i]` and `added[i]` use other accountants for discrete noise, those are combined in
    the same way.
    """
    pairs = zip(accountants, added, strict=True)
    return [replace(one, added=other, discrete=_pair_discrete(one.discrete, other.discrete)) for one, other in pairs]


def _pair_discrete(one: "str | Accountant | None", other: "str | Accountant | None") -> "str | Accountant | None":
    return replace(one, added=other) if isinstance(one, Accountant) and isinstance(other, Accountant) else one


def repeated(curve: Callable[[Array], Array], times: Callable[[int], int] = lambda queries: queries) -> Totals:
    """Return a function for `RenyiAccountant.totals`, for equal steps that each have the Rényi curve `curve`.

    The function returns `times(T)`·`curve(orders)` for the first T queries. `times(T)` is the number of steps that T
    queries take, by default one per query.
    """

    def totals(queries: Sequence[int], orders: Array) -> Array:
        return np.multiply.outer([float(times(T)) for T in queries], curve(orders))

    return totals


def summed(curve: Callable[[Array, Array], Array], rows: Array) -> Totals:
    """Return a function for `RenyiAccountant.totals` that sums data-dependent Rényi curves over the first T queries.

    `rows` has one row per query, with the data on which its curve depends, such as ln q. `curve(rows, orders)` returns
    the Rényi divergences (queries × orders) of the queries in `rows`.
    """

    def totals(queries: Sequence[int], orders: Array) -> Array:
        running, done, sums = np.zeros(len(orders)), 0, {}
        for T in sorted(set(queries)):
            for block in blocks(T, _CELLS // len(orders), start=done):
                running = running + curve(rows[block], orders).sum(axis=0)
            done, sums[T] = T, running
        return np.stack([sums[T] for T in queries])

    return totals


def check_queries(queries: Sequence[int], available: int) -> list[int]:
    """Return the distinct numbers in `queries` in ascending order.

    Raises
    ------
    PatebenchError
        If `queries` is empty, or a number is below 1 or above `available`, the number of queries with votes.
    """
    if not queries:
        raise PatebenchError("'queries' is empty; give at least one number of queries for which ε is computed")
    for T in queries:
        if not 1 <= T <= available:
            raise PatebenchError(
                f"ε is requested for {plural(T, 'query')}, but the votes are on {plural(available, 'query')}; give a"
                f" number of queries from 1 to {available}"
            )
    return sorted(set(queries))
