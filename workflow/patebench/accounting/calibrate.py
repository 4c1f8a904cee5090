"""Budgets turned round: how much of something a cost allows. Every search ends on the side that keeps the budget."""

import math
from collections.abc import Callable

from patebench.core.errors import PatebenchError

#: Where noise parameters are looked for.
LEAST, GREATEST = 1e-12, 1e12

#: How near to the edge of the budget a search ends, relatively.
_NEAR = 1e-12


def most(cost: Callable[[int], float], budget: float, limit: int) -> int:
    """The largest number from 0 to `limit` with cost(number) ≤ budget, for a cost that never falls."""
    fits, fails = 0, 1
    while cost(fails) <= budget:
        if fails == limit:
            return limit
        fits, fails = fails, min(2 * fails, limit)
    while fails - fits > 1:
        middle = (fits + fails) // 2
        fits, fails = (middle, fails) if cost(middle) <= budget else (fits, middle)
    return fits


def edge(cost: Callable[[float], float], budget: float, low: float = LEAST, high: float = GREATEST) -> float:
    """The value in [low, high] next to where the cost passes the budget, with cost(value) ≤ budget.

    The cost may rise or fall, but not both. Raises PatebenchError where it is the same at both ends, or above the
    budget at both.
    """
    at_low, at_high = cost(low), cost(high)
    if at_low == at_high:
        raise PatebenchError("it does not change the cost")
    fits, fails = (low, high) if at_low < at_high else (high, low)
    if min(at_low, at_high) > budget:
        raise PatebenchError(f"even {fits:g} costs ε = {min(at_low, at_high):.4g}, above the target {budget:g}")
    if max(at_low, at_high) <= budget:
        return fails
    while abs(math.log(fits / fails)) > _NEAR:
        middle = math.sqrt(fits) * math.sqrt(fails)
        if middle in (fits, fails):
            break
        fits, fails = (middle, fails) if cost(middle) <= budget else (fits, middle)
    return fits
