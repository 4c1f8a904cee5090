"""Composition of several draws from the same private data, in Rényi divergences at fixed orders.

A draw is one use of noise on private votes, such as labels, a round or a sanitised bound. A partition divides the
private records into shards, one per teacher. The total cost of several draws is computed by these rules:

- The costs of draws from the same teachers add up (Mironov 2017, Proposition 1).
- The cost of a partition is the largest total of a single teacher (McSherry 2009, Theorem 4).
- The costs of several partitions add up. The sum holds for changes of the data that alter at most one shard in each
  partition.
- Failure probabilities add up in the same way and count towards δ.

The order of a budget is fixed beforehand, because later costs may depend on earlier draws (Feldman & Zrnic 2021,
section 3). Proof: docs/explanation/proofs-composition.md, "Several draws".
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import conversion
from patebench.accounting.accountant import Accountant, RenyiAccountant
from patebench.accounting.filter import allowance
from patebench.accounting.logspace import Array
from patebench.core.bound import Kind
from patebench.data.partitions import OF_OWNERS, SHARD

#: Rounding error of a sum, relative to it.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Spending:
    """Worst-case privacy cost of one draw: one use of noise on private votes, such as the release of labels.

    Parameters
    ----------
    partition : name of the partition of the data into shards
    divergences : (orders,) Rényi divergences at `conversion.ORDERS`
    failure : probability that the divergences do not hold
    teachers : first and last teacher, both included, whose votes were used; None: all
    protects : changes of the data (values of `Change`) that alter at most one shard of the partition; () if unknown
    owners : digest of the grouping of the records by owner; None if unknown, or if the partition is not by owner
    """

    partition: str
    divergences: Array
    failure: float = 0.0
    teachers: tuple[int, int] | None = None
    protects: tuple[str, ...] = ()
    owners: str | None = None


def common_changes(spendings: Sequence[Spending]) -> tuple[str, ...]:
    """Return the changes of the data for which the total cost of `spendings` holds.

    The result contains the changes that are in the field `protects` of every draw. If no change is in all of them, the
    result depends on the number of partitions. For one partition, it is (`SHARD`,), the change of a whole shard. For
    several partitions, it is empty.

    The changes of an owner are in common only if all draws use one partition, or group the records by owner in the same
    way. Otherwise, all records of an owner of one partition could be in many shards of another.
    """
    first = spendings[0].protects if spendings else ()
    common = tuple(change for change in first if all(change in draw.protects for draw in spendings))
    several = len({draw.partition for draw in spendings}) > 1
    if several and (spendings[0].owners is None or len({draw.owners for draw in spendings}) > 1):
        common = tuple(change for change in common if change not in OF_OWNERS)
    return common or (() if several or not spendings else (SHARD,))


def together(spendings: Iterable[Spending]) -> tuple[Array, float]:
    """Return the total cost of `spendings`, rounded up: divergences at `conversion.ORDERS`, and failure probability.

    Costs of disjoint teachers of one partition do not add up. The total holds only for `common_changes(spendings)`.
    """
    by_partition: dict[str, list[Spending]] = {}
    for draw in spendings:
        by_partition.setdefault(draw.partition, []).append(draw)
    divergences, failure = np.zeros(len(conversion.ORDERS)), 0.0
    for draws in by_partition.values():
        # A teacher with the largest total cost is the first teacher of some draw. −1 is any teacher, if every draw
        # uses all teachers.
        firsts = {draw.teachers[0] for draw in draws if draw.teachers} or {-1}
        costs = [_teacher_cost(draws, teacher) for teacher in firsts]
        divergences = divergences + np.max([curve for curve, _ in costs], axis=0)
        failure += max(probability for _, probability in costs)
    return divergences * (1 + _ROUNDING), failure * (1 + _ROUNDING)


def epsilon(spendings: Sequence[Spending], delta: float, order: float | None = None) -> float:
    """Return the least ε at `delta` of all `spendings` together, by the tight conversion.

    With `order`, one of `conversion.ORDERS`, return ε at this order. ε is ∞ if the failure probability is δ or more.
    """
    divergences, failure = together(spendings)
    remaining = delta - failure
    if remaining <= 0:
        return math.inf
    epsilons = conversion.tight(conversion.ORDERS, divergences, remaining)
    return float(epsilons.min() if order is None else epsilons[_order_index(order)])


def _order_index(order: float) -> int:
    return int(np.argmin(np.abs(conversion.ORDERS - order)))


def keeps(spendings: Sequence[Spending], epsilon: float, delta: float, order: float) -> bool:
    """Return True if the draws `spendings` are together (ε, δ)-DP, by the conversion at the Rényi order `order`."""
    divergences, failure = together(spendings)
    remaining = delta - failure
    if remaining <= 0:
        return False
    index = _order_index(order)
    return bool(divergences[index] <= allowance(conversion.ORDERS[index : index + 1], epsilon, remaining)[0])


def best_order(spendings: Sequence[Spending], epsilon: float, delta: float) -> float:
    """Return the order in `conversion.ORDERS` at which `spendings` use the smallest share of the budget (ε, δ)."""
    divergences, failure = together(spendings)
    orders = conversion.ORDERS
    with np.errstate(divide="ignore", invalid="ignore"):
        room = allowance(orders, epsilon, max(delta - failure, np.finfo(float).tiny)) / divergences
    return float(orders[np.argmax(np.nan_to_num(room, nan=-math.inf))])


def worst_case(accountants: Iterable[Accountant], queries: int) -> tuple[Array, float] | None:
    """Return the worst-case Rényi divergences (at `conversion.ORDERS`) and failure probability of `queries` queries.

    Of the worst-case Rényi accountants in `accountants`, only those with the smallest failure probability are used. At
    each order, the result is the smallest of their divergences. It is None if there is no worst-case Rényi accountant.
    """
    usable = [item for item in accountants if isinstance(item, RenyiAccountant) and item.kind is Kind.WORST_CASE]
    if not usable:
        return None
    failure = min(item.failure(queries) for item in usable)
    curves = [_compute_curve(item, queries) for item in usable if item.failure(queries) == failure]
    return np.min(curves, axis=0), failure


def _compute_curve(accountant: RenyiAccountant, queries: int) -> Array:
    """Return the Rényi divergences by `accountant` of the first `queries` queries, at `conversion.ORDERS`."""
    orders = conversion.ORDERS if accountant.refine else np.sort(accountant.orders)
    curve: Array = np.append(accountant.totals([queries], orders)[0], np.inf)
    # Divergences do not decrease in the order (van Erven & Harremoës 2014, Theorem 3): the next higher one is valid.
    return curve[np.searchsorted(orders, conversion.ORDERS)]


def _teacher_cost(draws: Sequence[Spending], teacher: int) -> tuple[Array, float]:
    """Return the divergences and the failure probability, summed over the `draws` that use votes of `teacher`."""
    used = [draw for draw in draws if draw.teachers is None or draw.teachers[0] <= teacher <= draw.teachers[1]]
    divergences: NDArray[np.float64] = np.sum([draw.divergences for draw in used], axis=0)
    return divergences, sum(draw.failure for draw in used)
