"""Rényi filter, which stops an adaptive release before its budget is exceeded.

Steps may be chosen adaptively. The cost of each step is known beforehand and depends on public quantities only. If the
costs at one fixed order α never add up to more than ρ, the release is (α, ρ)-Rényi private (Feldman & Zrnic 2021,
*Individual privacy accounting via a Rényi filter*, section 3; Lécuyer 2021, *Practical privacy filters and odometers
with Rényi differential privacy*), and hence (ε, δ)-private by the conversion. Data-dependent costs are not allowed: the
stopping point would leak information on the votes.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from patebench.accounting import conversion
from patebench.accounting.logspace import Array
from patebench.core.bound import check_delta
from patebench.core.errors import PatebenchError

#: Function of orders that returns the worst-case Rényi divergence of one step at each.
Curve = Callable[[Array], Array]


class PerQueryCost(NamedTuple):
    """Worst-case cost of a query, as Rényi curves.

    Parameters
    ----------
    answer : cost of an answer
    threshold_test : cost of the test that decides whether a query is answered, which is paid for every query; None if
        the mechanism always answers
    """

    answer: Curve
    threshold_test: Curve | None = None

    def both(self, orders: Array) -> Array:
        """Return the cost of an answered query at each order: the cost of its test, if any, plus that of the answer."""
        if self.threshold_test is None:
            return self.answer(orders)
        return self.threshold_test(orders) + self.answer(orders)


#: Relative margin for rounding errors of a ledger, which adds the costs of several releases.
_LEDGERS = 1e-11

#: Rounding error of the terms of the conversion, relative to their sizes.
_SLACK = 16 * np.finfo(np.float64).eps


def allowance(orders: Array, epsilon: float, delta: float) -> Array:
    """Return the largest Rényi divergence at each order that implies (ε, δ)-DP; negative if none does.

    This is the inverse of `conversion.tight` (Canonne, Kamath, Steinke 2020, Proposition 12), rounded down.
    """
    factor, tail = np.log1p(-1 / orders), (np.log(delta) + np.log(orders)) / (orders - 1)
    return epsilon - factor + tail - _SLACK * (epsilon - factor + np.abs(tail))


def best_order(curve: Curve, epsilon: float, delta: float) -> float:
    """Return the order at which the budget (ε, δ) covers the largest number of steps with the Rényi curve `curve`."""

    def steps(orders: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(allowance(orders, epsilon, delta) / curve(orders), nan=-math.inf)

    orders = conversion.ORDERS
    for _ in range(3):
        orders = conversion.between(orders, int(np.argmax(steps(orders))))
    return float(orders[np.argmax(steps(orders))])


class RenyiFilter:
    """Rényi filter, which limits the total privacy cost of adaptive steps to a budget (ε, δ).

    The attributes `spent` and `allowance` are the cost so far and its limit, as Rényi divergences at one order. If the
    cost of each step is a worst case, all steps together are (ε, δ)-DP for one teacher's shard.
    """

    def __init__(self, *, epsilon: float, delta: float, order: float) -> None:
        if not 0 < epsilon < math.inf:
            raise PatebenchError(f"a budget of ε = {epsilon} is not allowed; choose a positive, finite ε")
        check_delta(delta)
        if not 1 < order < math.inf:
            raise PatebenchError(f"the Rényi order {order} is out of range; give a finite order above 1")
        self.epsilon, self.delta, self.order = epsilon, delta, order
        self.allowance = float(allowance(np.array([order]), epsilon, delta)[0]) * (1 - _LEDGERS)
        self.spent = 0.0

    @classmethod
    def for_steps(cls, curve: Curve, *, epsilon: float, delta: float) -> "RenyiFilter":
        """Return a filter at the order at which (ε, δ) covers the largest number of steps with the curve `curve`."""
        return cls(epsilon=epsilon, delta=delta, order=best_order(curve, epsilon, delta))

    def admits(self, cost: Curve) -> bool:
        """Return True if the remaining budget covers a step with the Rényi curve `cost`."""
        return self._total_with(cost) <= self.allowance

    def spend(self, cost: Curve) -> None:
        """Add the Rényi divergence of a step with the Rényi curve `cost` to `spent`.

        Raises
        ------
        PatebenchError
            If the remaining budget does not cover `cost`; `spent` is then unchanged.
        """
        after = self._total_with(cost)
        if not after <= self.allowance:
            raise PatebenchError(
                f"the budget ε = {self.epsilon:g} at δ = {self.delta:g} would be exceeded by another step; stop the"
                " release"
            )
        self.spent = after

    def _total_with(self, cost: Curve) -> float:
        """Return `spent` plus the Rényi divergence of a step with the Rényi curve `cost`, rounded up."""
        added = float(cost(np.array([self.order]))[0])
        if math.isnan(added) or added < 0:
            raise PatebenchError(
                f"the Rényi divergence of a step at order {self.order:g} is {added}, but must be at least 0; correct "
                "the cost of the step"
            )
        return math.nextafter(self.spent + added, math.inf) if added > 0 else self.spent


def queries_within(budget: RenyiFilter, answered: Iterable[bool], cost: PerQueryCost) -> int:
    """Charge `budget` for queries in order until it is used up, and return the number of queries asked.

    A query is asked only if the budget covers both its threshold test and its answer. The test is always charged. The
    answer is charged only if the query is answered. Without a threshold test, every query counts as answered.

    Parameters
    ----------
    budget : filter that is charged
    answered : for each query in order, True if the mechanism answered it, which is public
    cost : worst-case cost of a query
    """
    asked = 0
    for was_answered in answered:
        if not budget.admits(cost.both):
            break
        if cost.threshold_test is not None:
            budget.spend(cost.threshold_test)
        if was_answered or cost.threshold_test is None:
            budget.spend(cost.answer)
        asked += 1
    return asked
