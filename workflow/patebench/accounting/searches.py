"""Searches: the least ε at a δ, the most queries or the least noise within a budget.

Every search ends on the side that is safe: where the bound holds, or the budget is kept.
"""

import math
import sys
from collections.abc import Callable
from typing import TypeVar

from patebench.core.errors import PatebenchError

N = TypeVar("N", int, float)

#: Where noise parameters are looked for.
LEAST, GREATEST = 1e-12, 1e12

#: How near to the edge of the budget a search ends, relatively. PET-DL trains with the noise that is found, so with
#: another value here it has other records.
_NEAR = 1e-12

#: How far to either side of a guess the edge is looked for first, relatively.
_BESIDE = 0.01

#: How far from the budget a cost counts as any other, in logarithms: it may be 0 or ∞.
_FAR = 20.0


def arithmetic(one: float, other: float) -> float:
    """The mean, to halve an interval."""
    return (one + other) / 2


def geometric(one: float, other: float) -> float:
    """The geometric mean, to halve an interval of positive numbers of unknown size."""
    return math.sqrt(one) * math.sqrt(other)


def bisect(
    holds: Callable[[N], bool],
    safe: N,
    unsafe: N,
    *,
    halve: Callable[[N, N], N],
    near: float = 0.0,
) -> N:
    """The last value at which `holds` was true, in a bisection between `safe`, where it is, and `unsafe`, where not.

    Neither end is tried. `halve` gives a value between two. The search ends where the two sides differ by at most the
    share `near` of the larger, or where no value lies between them.
    """
    while abs(safe - unsafe) > near * max(safe, unsafe):
        middle = halve(safe, unsafe)
        if middle in (safe, unsafe):
            break
        safe, unsafe = (middle, unsafe) if holds(middle) else (safe, middle)
    return safe


def most(cost: Callable[[int], float], budget: float, limit: int) -> int:
    """The largest number from 0 to `limit` with cost(number) ≤ budget, for a cost that never falls."""
    fits, fails = 0, 1
    while cost(fails) <= budget:
        if fails == limit:
            return limit
        fits, fails = fails, min(2 * fails, limit)
    return bisect(lambda number: cost(number) <= budget, fits, fails, halve=lambda one, other: (one + other) // 2)


def edge(
    cost: Callable[[float], float],
    budget: float,
    low: float = LEAST,
    high: float = GREATEST,
    guess: float | None = None,
    near: float = _NEAR,
) -> float:
    """The value in [low, high] next to where the cost passes the budget, with cost(value) ≤ budget.

    The cost may rise or fall, but not both. A `guess` within a percent of the value saves steps; any other costs two.
    The search ends within the share `near` of where the cost passes the budget.
    Raises PatebenchError where the cost is the same at both ends, or above the budget at both.
    """
    at_low, at_high = cost(low), cost(high)
    if at_low == at_high:
        raise PatebenchError("it does not change the cost")
    (least, cheap), (greatest, dear) = sorted([(at_low, low), (at_high, high)])
    if least > budget:
        raise PatebenchError(f"even {cheap:g} costs ε = {least:.4g}, above the target {budget:g}")
    if greatest <= budget:
        return dear
    tried = [guess * (1 - _BESIDE), guess * (1 + _BESIDE)] if guess else []
    seen = {value: cost(value) for value in tried if low < value < high} | {cheap: least, dear: greatest}
    return _crossing(cost, budget, _nearest(seen, budget, cheap), near)


def _nearest(seen: dict[float, float], budget: float, cheap: float) -> dict[float, float]:
    """Of values whose cost is known the two next to the edge: the last that keeps the budget, the first that does not.

    `cheap` is the value at which the cost is least.
    """
    away = sorted(seen, key=lambda value: abs(math.log(value / cheap)))
    passes = next(place for place, value in enumerate(away) if seen[value] > budget)
    return {value: seen[value] for value in away[passes - 1 : passes + 1]}


def _crossing(cost: Callable[[float], float], budget: float, ends: dict[float, float], near: float) -> float:
    """The value nearest to where the cost passes the budget that was seen to keep it, between two whose cost is known.

    Algorithm 748 (Alefeld, Potra, Shi 1995) on logarithms: a bound is near to a power of the noise, so a search of a
    few steps ends where bisection takes fifty. It always has a value on each side, and ends where these meet.
    """
    from scipy.optimize import toms748

    (safe, dear) = ends
    rising = dear > safe
    known = {math.log(value): costs for value, costs in ends.items()}

    def excess(log_value: float) -> float:
        nonlocal safe
        if (costs := known.get(log_value)) is not None:
            return logarithm(costs)
        value = math.exp(log_value)
        costs = cost(value)
        if costs <= budget:
            safe = max(safe, value) if rising else min(safe, value)
        return logarithm(costs)

    def logarithm(costs: float) -> float:
        return min(max(math.log(costs / budget) if costs > 0 else -_FAR, -_FAR), _FAR)

    low, high = sorted(known)
    toms748(excess, low, high, xtol=near, rtol=4 * sys.float_info.epsilon)
    return safe
