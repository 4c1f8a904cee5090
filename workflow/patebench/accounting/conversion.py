"""Conversion of Rényi curves to (ε, δ), and the orders to try.

A curve has one Rényi divergence ε(α) per order α. Every order gives a valid ε, so the minimum over any set of orders is
valid. A finer set only gives a tighter bound.
"""

import numpy as np

from patebench.accounting.logspace import Array
from patebench.core.bound import Conversion

#: Orders from 1.01 to 10⁶, evenly spaced in ln(α − 1), sixteen per decade.
ORDERS = 1.0 + np.geomspace(1e-2, 1e6, 129)

#: Orders up to 10¹⁶ with the same spacing, for papers that claim an ε near zero.
CLAIMED_ORDERS = 1.0 + np.geomspace(1e-2, 1e16, 289)


def classic(orders: Array, curve: Array, delta: float) -> Array:
    """Return ε per order α: ε(α) + ln(1/δ)/(α−1), with ε(α) the Rényi divergence in `curve` (Mironov 2017, Prop. 3).

    The tail bound of PATE 2017 is the same formula in log moments: the l-th log moment is l·ε(l + 1).
    """
    return curve - np.log(delta) / (orders - 1)


def tight(orders: Array, curve: Array, delta: float) -> Array:
    """Return ε per order α: ε(α) + ln(1−1/α) − (ln δ + ln α)/(α−1), raised to 0 where negative.

    ε(α) is the Rényi divergence in `curve` (Canonne, Kamath, Steinke 2020, Proposition 12). The result is also 0 where
    1 − exp(−ε(α)) ≤ δ², as the total variation distance is then at most δ (Bretagnolle & Huber 1979).
    """
    epsilon = unclipped(Conversion.TIGHT, orders, curve, delta)
    return np.where(-np.expm1(-curve) <= delta * delta, 0.0, np.maximum(epsilon, 0.0))


def unclipped(how: Conversion, orders: Array, curve: Array, delta: float) -> Array:
    """Return ε at `delta` per order by the formula of the conversion `how`, even where it is negative.

    The function `tight` replaces negative values by 0. If it returns 0 at several orders, the negative values show
    which of these orders is best.
    """
    if how is Conversion.CLASSIC:
        return classic(orders, curve, delta)
    return curve + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)


def convert(how: Conversion, orders: Array, curve: Array, delta: float) -> Array:
    """Return ε at `delta` for each order by the conversion `how`; ∞ where the Rényi divergence is infinite.

    Parameters
    ----------
    orders : (orders,) Rényi orders above 1
    curve : (…, orders) Rényi divergences
    """
    return classic(orders, curve, delta) if how is Conversion.CLASSIC else tight(orders, curve, delta)


def between(orders: Array, best: int) -> Array:
    """Return a finer grid of orders around `orders[best]`, to look for a smaller ε.

    The grid has seventeen orders from `orders[best - 1]` to `orders[best + 1]`, evenly spaced in ln(α − 1).
    """
    low, high = orders[max(best - 1, 0)], orders[min(best + 1, len(orders) - 1)]
    return 1.0 + np.geomspace(low - 1, high - 1, 17)
