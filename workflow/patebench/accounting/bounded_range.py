"""Mechanisms of bounded range: the privacy loss of one step lies in some interval of length η (Durfee & Rogers 2019).

The exponential mechanism is one. Such a step loses t or t − η at worst, for one t in [0, η], with probabilities that
t alone determines (Dong, Durfee, Rogers 2020, generalised randomised response): with p that of t and q = p e^{−t} that
on the neighbour, p e^{−t} + (1 − p) e^{η−t} = 1.
"""

import math

import numpy as np
from scipy.special import betainc

from patebench.accounting import conversion
from patebench.accounting.calibrate import arithmetic, bisect
from patebench.accounting.logspace import Array, log_expm1, softplus

#: More steps than this are composed by their Rényi curve alone.
_STEPS = 1 << 14

#: Relative error of an incomplete beta function, and ln of what still can be exponentiated, both with room to spare.
_ERROR, _LARGE = 1e-11, 600.0

_ROUNDING = 16 * float(np.finfo(np.float64).eps)


def rdp(eta: float, orders: Array) -> Array:
    """The largest Rényi divergence of one step, as a closed form; at most αη²/8 (Cesar & Rogers 2021).

    On the neighbour the likelihood ratio has mean 1 and lies in [u, u e^η] for some u in [e^{−η}, 1]; its α-th moment,
    convex in the ratio, is greatest with all mass at the ends, uᵅ(1 − R) + u^{α−1}R with R = (e^{αη} − 1)/(e^η − 1).
    That is greatest at u = (α − 1)R/(α(R − 1)), where it is u^{α−1}R/α. With r = ln(R/α) the divergence is
    αr/(α − 1) − ln(1 + α(eʳ − 1)/(α − 1)), rounded up here by what may have been cancelled.
    """
    orders = np.asarray(orders, dtype=np.float64)
    r = np.maximum(log_expm1(orders * eta) - log_expm1(eta) - np.log(orders), 0.0)
    share = orders / (orders - 1)
    found = share * r - softplus(np.log(share) + log_expm1(r)) + _ROUNDING * share * (r + 1)
    result: Array = np.minimum(found, np.minimum(orders * eta * eta / 8, eta))
    return result


def composition(eta: float, queries: int, delta: float) -> float:
    """ε of T steps of range η that are fixed beforehand (Dong, Durfee, Rogers 2020, optimal non-adaptive composition).

    Where the steps can not be chosen in the light of earlier results, as with a fixed list of queries, all may be
    taken to have the same t. With ℓ of T losses at t − η or fewer as the event, δ is greatest at
    t = (ε + (ℓ + 1)η)/(T + 1); the answer is the least ε at which no ℓ gives more than δ, from above.
    """
    high = _renyi(eta, queries, delta)
    if queries > _STEPS or high > _LARGE:
        return high
    if _delta(eta, queries, 0.0) <= delta:
        return 0.0
    return bisect(lambda epsilon: _delta(eta, queries, epsilon) <= delta, high, 0.0, halve=arithmetic, near=1e-10)


def _renyi(eta: float, queries: int, delta: float) -> float:
    curve = queries * rdp(eta, conversion.ORDERS)
    return min(queries * eta, float(np.min(conversion.tight(conversion.ORDERS, curve, delta))))


def _delta(eta: float, queries: int, epsilon: float) -> float:
    """δ(ε), rounded up."""
    few = np.arange(queries)
    t = np.minimum((epsilon + (few + 1) * eta) / (queries + 1), eta)
    p = np.expm1(t - eta) / math.expm1(-eta)
    likely, rare = (betainc(queries - few, few + 1, share) for share in (p, p * np.exp(-t)))
    return float(np.max(likely * (1 + _ERROR) - math.exp(epsilon) * rare * (1 - _ERROR)))
