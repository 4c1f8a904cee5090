"""Searches for the most queries or the least noise within a budget.

Every search returns a value on the safe side, at which the bound holds or the cost is within the budget.
"""

import math
import sys
from collections.abc import Callable
from typing import TypeVar

from patebench.core.errors import PatebenchError

N = TypeVar("N", int, float)

#: Range in which noise parameters are searched.
LEAST, GREATEST = 1e-12, 1e12

#: Relative tolerance of a search. PET-DL trains with noise found by a search, so another tolerance changes its results.
_NEAR = 1e-12

#: Relative half-width of the interval around a guess that is tried first.
_BESIDE = 0.01

#: Cap on |ln(cost/budget)|, as a cost may be 0 or ∞.
_FAR = 20.0


def mean(one: N, other: N) -> N:
    """Return the mean of two numbers, rounded down if they are integers."""
    return (one + other) // 2 if isinstance(one, int) else (one + other) / 2


def geometric(one: float, other: float) -> float:
    """Return the geometric mean of two positive numbers."""
    return math.sqrt(one) * math.sqrt(other)


def bisect(
    holds: Callable[[N], bool], safe: N, unsafe: N, *, halve: Callable[[N, N], N] = mean, near: float = 0.0
) -> N:
    """Return a value between `safe` and `unsafe` at which `holds` is true, as near to `unsafe` as possible.

    The search is by bisection. It ends at a relative distance of at most `near` from a value at which `holds` is false,
    or when no value is in between.

    Parameters
    ----------
    holds : condition on a value
    safe : value at which `holds` is true; this is not checked
    unsafe : value at which `holds` is false; this is not checked
    halve : function that returns a value between two others
    near : relative tolerance
    """
    while abs(safe - unsafe) > near * max(safe, unsafe):
        middle = halve(safe, unsafe)
        if middle in (safe, unsafe):
            break
        safe, unsafe = (middle, unsafe) if holds(middle) else (safe, middle)
    return safe


def most(cost: Callable[[int], float], budget: float, limit: int) -> int:
    """Return the largest integer n ≤ `limit` with cost(n) ≤ budget, or 0 if there is none; `cost` must not decrease."""
    fits, fails = 0, 1
    while cost(fails) <= budget:
        if fails == limit:
            return limit
        fits, fails = fails, min(2 * fails, limit)
    return bisect(lambda number: cost(number) <= budget, fits, fails)


def edge(
    cost: Callable[[float], float],
    budget: float,
    low: float = LEAST,
    high: float = GREATEST,
    guess: float | None = None,
    near: float = _NEAR,
) -> float:
    """Return the noise parameter, from `low` to `high`, whose cost is closest to `budget` without exceeding it.

    Parameters
    ----------
    cost : monotone function of the noise parameter, such as ε
    budget : upper limit of the cost
    low, high : ends of the searched range
    guess : approximate result, if known; the search is faster if it is within 1 % of the result
    near : relative tolerance of the result

    Raises
    ------
    PatebenchError
        If the cost is the same at both ends, or above the budget at both.
    """
    at_low, at_high = cost(low), cost(high)
    if at_low == at_high == math.inf:
        raise PatebenchError("ε is infinite whatever the value of this parameter; change another parameter or δ")
    if at_low == at_high:
        raise PatebenchError(
            "ε does not depend on this parameter; give a value for it, and leave out another parameter instead"
        )
    (least, cheap), (greatest, expensive) = sorted([(at_low, low), (at_high, high)])
    if least > budget:
        raise PatebenchError(
            f"the target ε = {budget:g} is too small: ε is at least {least:.4g}, which this parameter reaches at"
            f" {cheap:g}; raise the target"
        )
    if greatest <= budget:
        return expensive
    tried = [guess * (1 - _BESIDE), guess * (1 + _BESIDE)] if guess else []
    costs = {value: cost(value) for value in tried if low < value < high} | {cheap: least, expensive: greatest}
    ordered = sorted(costs, key=lambda value: abs(math.log(value / cheap)))
    first_above = next(i for i, value in enumerate(ordered) if costs[value] > budget)
    ends = {value: costs[value] for value in ordered[first_above - 1 : first_above + 1]}
    return _find_crossing(cost, budget, ends, near)


def _find_crossing(cost: Callable[[float], float], budget: float, ends: dict[float, float], near: float) -> float:
    """Return the value between the two keys of `ends` whose cost is closest to `budget` without exceeding it.

    `ends` maps values to costs: first a value whose cost is at most `budget`, then one whose cost exceeds it. `near` is
    the relative tolerance of the result.
    """
    from scipy.optimize import toms748

    (safe, unsafe) = ends
    rising = unsafe > safe
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
    # Algorithm 748 (Alefeld, Potra, Shi 1995) on logarithms: the cost is nearly a power of the value, so a few steps
    # suffice where bisection takes fifty.
    toms748(excess, low, high, xtol=near, rtol=4 * sys.float_info.epsilon)
    return safe
