"""Budgets of a release: which labels they allow, and what they promise."""

from collections.abc import Sequence

import numpy as np

from patebench.accounting import conversion
from patebench.accounting.accountant import DirectAccountant
from patebench.accounting.filter import PerQueryCost, RenyiFilter, best_order, queries_within
from patebench.core.bound import Bound, Kind
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import NO_ANSWER, Labels


def keeper_of(cost: PerQueryCost, epsilon: float, delta: float) -> RenyiFilter:
    """The filter that stops queries of this cost before they exceed (ε, δ); its order depends on nothing else.

    PatebenchError if not even one fits.
    """
    # At the next of the orders at which a ledger counts, so that it finds a kept budget kept.
    order = best_order(cost.both, epsilon, delta)
    nearest = conversion.ORDERS[np.argmin(np.abs(np.log((conversion.ORDERS - 1) / (order - 1))))]
    keeper = RenyiFilter(epsilon=epsilon, delta=delta, order=float(nearest))
    if not keeper.admits(cost.both):
        raise PatebenchError(
            f"a budget of ε = {epsilon:g} at δ = {delta:g} does not admit one query; "
            "give a larger one, or use more noise"
        )
    return keeper


def labels_within(cost: PerQueryCost, labels: Labels, epsilon: float, delta: float) -> tuple[Labels, int]:
    """The labels that a budget allows, the rest without answer, and how many queries were put.

    Queries are drawn independently, so leaving the last ones out is the same as never having put them.
    """
    keeper = keeper_of(cost, epsilon, delta)
    put = queries_within(keeper, labels != NO_ANSWER, cost)
    kept = labels.copy()
    kept[put:] = NO_ANSWER
    return kept, put


def budget_bounds(epsilon: float, queries: Sequence[int], delta: float) -> list[Bound]:
    """What the filter promises: no more than the budget, however many of the queries it admitted."""
    promise = DirectAccountant(
        name="rdp-filter",
        label="Rényi filter",
        kind=Kind.WORST_CASE,
        source="Feldman & Zrnic 2021, section 3; Lécuyer 2021: the budget that the release was stopped at",
        epsilon=lambda T, delta: epsilon,
    )
    return promise.bounds(queries, delta)
