"""A Rényi filter: it stops a release before its budget is exceeded, whatever was asked and decided on the way.

Steps may be chosen adaptively, each with a cost known before it is made, from public quantities alone. If the costs at
one order, fixed beforehand, never add up to more than ρ, the whole is (α, ρ)-Rényi private (Feldman & Zrnic 2021,
*Individual privacy accounting via a Rényi filter*, section 3; Lécuyer 2021, *Practical privacy filters and odometers
with Rényi differential privacy*), and hence (ε, δ)-private by the conversion. Data-dependent costs have no place here:
where to stop would tell something of the votes.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from patebench.accounting import conversion
from patebench.accounting.logspace import Array
from patebench.core.bound import check_delta
from patebench.core.errors import PatebenchError

#: Rényi divergence of one step at each of the given orders, for all votes.
Curve = Callable[[Array], Array]


class PerQueryCost(NamedTuple):
    """What a mechanism pays per query, whatever the votes are, as Rényi curves.

    `answer` is the cost of an answer. `threshold_test` is the cost of the test that decides whether there is one, which
    is paid for every query; None for a mechanism that answers always.
    """

    answer: Curve
    threshold_test: Curve | None = None

    def both(self, orders: Array) -> Array:
        """What a query costs that is answered."""
        if self.threshold_test is None:
            return self.answer(orders)
        return self.threshold_test(orders) + self.answer(orders)


#: What is left to a ledger that adds the whole release up with others, rounding up: relatively.
_LEDGERS = 1e-11

#: What rounding may add to the terms of the conversion, relative to their sizes.
_SLACK = 16 * np.finfo(np.float64).eps


def allowance(orders: Array, epsilon: float, delta: float) -> Array:
    """The largest Rényi divergence per order that is still (ε, δ)-DP; negative where even none is too much.

    The inverse of `conversion.tight` (Canonne, Kamath, Steinke 2020, Proposition 12), rounded down.
    """
    factor, tail = np.log1p(-1 / orders), (np.log(delta) + np.log(orders)) / (orders - 1)
    result: Array = epsilon - factor + tail - _SLACK * (epsilon - factor + np.abs(tail))
    return result


def best_order(curve: Curve, epsilon: float, delta: float) -> float:
    """The order at which most steps of this cost fit into (ε, δ), found without looking at any votes."""

    def steps(orders: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(allowance(orders, epsilon, delta) / curve(orders), nan=-math.inf)

    orders = conversion.ORDERS
    for _ in range(3):
        orders = conversion.between(orders, int(np.argmax(steps(orders))))
    return float(orders[np.argmax(steps(orders))])


class RenyiFilter:
    """What is left of a budget (ε, δ), counted at one order.

    `spent` and `allowance` are Rényi divergences at that order. Everything that was admitted and spent is together
    (ε, δ)-DP for one teacher's shard, provided each cost holds for all votes.
    """

    def __init__(self, *, epsilon: float, delta: float, order: float) -> None:
        if not 0 < epsilon < math.inf:
            raise PatebenchError(f"a budget of ε = {epsilon} can not be kept; give a positive, finite ε")
        check_delta(delta)
        if not 1 < order < math.inf:
            raise PatebenchError(f"a filter of order {order} is not defined; the order must be above 1 and finite")
        self.epsilon, self.delta, self.order = epsilon, delta, order
        self.allowance = float(allowance(np.array([order]), epsilon, delta)[0]) * (1 - _LEDGERS)
        self.spent = 0.0

    @classmethod
    def for_steps(cls, curve: Curve, *, epsilon: float, delta: float) -> "RenyiFilter":
        """A filter at the order that suits steps of about this cost best."""
        return cls(epsilon=epsilon, delta=delta, order=best_order(curve, epsilon, delta))

    def admits(self, cost: Curve) -> bool:
        """Whether a step of this cost still fits."""
        return self._after(cost) <= self.allowance

    def spend(self, cost: Curve) -> None:
        """Pay for a step; PatebenchError, and nothing paid, if it does not fit."""
        after = self._after(cost)
        if not after <= self.allowance:
            raise PatebenchError(
                f"the budget ε = {self.epsilon:g} at δ = {self.delta:g} does not admit another step; stop the release"
            )
        self.spent = after

    def _after(self, cost: Curve) -> float:
        """What would be spent, rounded up."""
        added = float(cost(np.array([self.order]))[0])
        if math.isnan(added) or added < 0:
            raise PatebenchError(f"a cost of {added} at order {self.order:g} is no Rényi divergence")
        return math.nextafter(self.spent + added, math.inf) if added > 0 else self.spent


def queries_within(budget: RenyiFilter, answered: Iterable[bool], cost: PerQueryCost) -> int:
    """How many queries, from the first, a release may put to the teachers; the budget pays for them.

    A query is put only if test and answer together fit, since nobody knows beforehand whether it will be answered.
    Afterwards that is public, so an answer that was not given is not paid for. Without a test, every query counts as
    answered.
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
