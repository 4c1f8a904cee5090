"""Compute what several draws from the same private data cost together, in Rényi divergences at fixed orders.

Draws from the same teachers add up (Mironov 2017, Proposition 1); of teachers of one partition the one who pays most
counts (McSherry 2009, Theorem 4); several partitions add up; failures add to δ. A budget has an order that is fixed
beforehand, as later costs may be chosen after earlier draws were seen (Feldman & Zrnic 2021, section 3).
Proof: docs/explanation/proofs-composition.md, "Several draws".
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

#: What adding up may lose, relative to the sum.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What one draw costs at most, whatever the data is.

    `divergences` are Rényi divergences at `conversion.ORDERS`, `failure` the probability with which they do not hold.
    `partition` names the shards, and `teachers` the first and the last one drawn from, both included; None: all.
    """

    partition: str
    divergences: Array
    failure: float = 0.0
    teachers: tuple[int, int] | None = None


def together(spent: Iterable[Spending]) -> tuple[Array, float]:
    """Divergences at `conversion.ORDERS` and the failure probability of all draws, rounded up."""
    by_partition: dict[str, list[Spending]] = {}
    for each in spent:
        by_partition.setdefault(each.partition, []).append(each)
    divergences, failure = np.zeros(len(conversion.ORDERS)), 0.0
    for draws in by_partition.values():
        sums = [_paid(draws, teacher) for teacher in _representatives(draws)]
        divergences = divergences + np.max([each for each, _ in sums], axis=0)
        failure += max(each for _, each in sums)
    return divergences * (1 + _ROUNDING), failure * (1 + _ROUNDING)


def epsilon(spent: Sequence[Spending], delta: float, order: float | None = None) -> float:
    """Return the least ε at δ of all draws together, by the tight conversion; ∞ where failures use δ up.

    With `order` it is the ε at this one of `conversion.ORDERS`.
    """
    divergences, failure = together(spent)
    left = delta - failure
    if left <= 0:
        return math.inf
    found = conversion.tight(conversion.ORDERS, divergences, left)
    return float(found.min() if order is None else found[_place(order)])


def _place(order: float) -> int:
    """The place of an order among `conversion.ORDERS`."""
    return int(np.argmin(np.abs(conversion.ORDERS - order)))


def keeps(spent: Sequence[Spending], epsilon: float, delta: float, order: float) -> bool:
    """Whether all draws together stay within (ε, δ) at one of `conversion.ORDERS`, which was fixed beforehand."""
    divergences, failure = together(spent)
    left = delta - failure
    if left <= 0:
        return False
    at = _place(order)
    return bool(divergences[at] <= allowance(conversion.ORDERS[at : at + 1], epsilon, left)[0])


def best_order(spent: Sequence[Spending], epsilon: float, delta: float) -> float:
    """The order of `conversion.ORDERS` at which most draws of these costs fit into (ε, δ)."""
    divergences, failure = together(spent)
    orders = conversion.ORDERS
    with np.errstate(divide="ignore", invalid="ignore"):
        room = allowance(orders, epsilon, max(delta - failure, np.finfo(float).tiny)) / divergences
    return float(orders[np.argmax(np.nan_to_num(room, nan=-math.inf))])


def worst_case(accountants: Iterable[Accountant], queries: int) -> tuple[Array, float] | None:
    """The least divergences that hold for so many queries whatever the votes are, and the failure probability.

    At each order the least of all Rényi accountants of that kind whose failure is the least. None if there are none.
    """
    known = [each for each in accountants if isinstance(each, RenyiAccountant) and each.kind is Kind.WORST_CASE]
    if not known:
        return None
    failure = min(each.failure(queries) for each in known)
    curves = [_curve(each, queries) for each in known if each.failure(queries) == failure]
    return np.min(curves, axis=0), failure


def _curve(accountant: RenyiAccountant, queries: int) -> Array:
    """Divergences at `conversion.ORDERS`; of one that holds at its own orders alone, those of the next of them.

    Rényi divergence does not fall as the order grows (van Erven & Harremoës 2014, Theorem 3).
    """
    orders = conversion.ORDERS if accountant.refine else np.sort(accountant.orders)
    known: Array = np.append(accountant.totals([queries], orders)[0], np.inf)
    found: Array = known[np.searchsorted(orders, conversion.ORDERS)]
    return found


def _representatives(draws: Sequence[Spending]) -> set[int]:
    """Teachers among whom one pays most: where draws begin, and one whom none but draws from all teachers concern."""
    return {each.teachers[0] for each in draws if each.teachers} or {-1}


def _paid(draws: Sequence[Spending], teacher: int) -> tuple[Array, float]:
    concerned = [each for each in draws if each.teachers is None or each.teachers[0] <= teacher <= each.teachers[1]]
    divergences: NDArray[np.float64] = np.sum([each.divergences for each in concerned], axis=0)
    return divergences, sum(each.failure for each in concerned)
