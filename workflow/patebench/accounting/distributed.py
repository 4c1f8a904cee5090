"""What noise costs that several parties add: a sum of discrete Gaussians, which is not quite a discrete Gaussian.

Kairouz, Liu, Steinke 2021, *The distributed discrete Gaussian mechanism for federated learning with secure
aggregation*, bound the difference. With m shares of scale σ_s ≥ ½, let

    τ = 10 Σ_{k=1}^{m−1} exp(−2π²σ_s² k/(k+1)).

The probabilities of the sum and of one discrete Gaussian of variance mσ_s² then differ nowhere by more than a factor
e^τ (their Corollary 12), and releasing integers of L2 sensitivity Δ, of which d change, with the sum as noise is
½ε²-concentrated private with ε = Δ/(√m·σ_s) + τ√d (their Theorem 1; of its three forms the one that needs Δ alone).

**One table with few votes of each teacher.** With at most m votes of a teacher, the tables of neighbours differ in at
most 2m cells, by one each (`sparse.py`: the cap is a function of a teacher's row and place alone). Each teacher adds
its share to every cell, whatever its votes, so both tables have the same noise: Δ = √(2m), d = 2m, and
½ε² = m·(1/σ + τ)² is what m queries cost whose counts are all revealed. The tight bound below speaks of the 2m cells
alone too. Both hold cell by cell given what was released before, so tables of several rounds cost what their m
together cost.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from patebench.accounting import conversion, discrete_gaussian
from patebench.accounting.logspace import Array
from patebench.core.bound import Conversion

#: The theorem needs shares of at least this scale; with smaller ones there is no bound.
LEAST_SHARE = 0.5


def difference(share: float, shares: int) -> float:
    """τ of `shares` discrete Gaussians of scale `share` each; ∞ below the least scale."""
    if share < LEAST_SHARE:
        return math.inf
    share = min(share, 1e150)  # whose square is a number, and at which τ is 0 as well
    k = np.arange(1, shares)
    return float(10 * np.exp(-2 * math.pi**2 * share**2 * k / (k + 1)).sum())


def counts_epsilon(sigma: float, shares: int, queries: int, delta: float) -> float:
    """ε of revealing all counts of T queries, the noise of each the sum of so many shares.

    Two counts move by one each per query; of a table with few votes of each teacher, T is their number m. The noise of
    2T counts has together the probabilities of as many discrete Gaussians of scale σ but for a factor within e^{±2Tτ}.
    Where P ≤ e^x P° and Q ≥ e^{−x} Q°, δ(ε) ≤ e^x δ°(ε − 2x). Or ε of the curve below, where that is less.
    """
    curve = queries * counts(sigma, shares, conversion.ORDERS)
    limit = float(np.min(conversion.convert(Conversion.TIGHT, conversion.ORDERS, curve, delta)))
    if sigma == 0 or (tau := 2 * queries * difference(sigma / math.sqrt(shares), shares)) > 1:
        return limit
    return min(limit, discrete_gaussian.epsilon(sigma, 2 * queries, delta * math.exp(-tau)) + 2 * tau)


def counts(sigma: float, shares: int, orders: ArrayLike) -> Array:
    """Rényi curve per query of revealing all counts, with `shares` shares of noise of variance σ²/shares each.

    A vote moves two counts by one each: Δ = √2 and d = 2. Concentrated privacy ½ε² is Rényi divergence αε²/2.
    """
    orders = np.asarray(orders, dtype=np.float64)
    if sigma == 0:
        return np.full_like(orders, np.inf)
    epsilon = math.sqrt(2) * (1 / sigma + difference(sigma / math.sqrt(shares), shares))
    result: Array = orders * epsilon**2 / 2
    return result
