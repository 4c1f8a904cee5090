"""Arithmetic on logarithms with full relative accuracy and without overflow.

A probability p is stored as ln p; ln 0 = −∞ is allowed.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patebench.core.blocks import blocks

Array = NDArray[np.float64]

#: Positive bounds below this value are rounded up to this value, since an upper bound must not underflow to 0.
LEAST = 1e-300

#: Numbers per block in `rowwise`.
_CELLS = 1 << 21

#: Numbers between e⁻⁶⁰⁰ and e⁶⁰⁰ need no log space.
_PLAIN = 600.0


def log1mexp(x: ArrayLike) -> Array:
    """Return ln(1 − eˣ) for x ≤ 0; −∞ at x = 0."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(divide="ignore"):
        result: Array = np.where(x > -0.693, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))
    return result


def log_expm1(x: ArrayLike) -> Array:
    """Return ln(eˣ − 1) for x ≥ 0; −∞ at x = 0."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(divide="ignore"):
        result: Array = x + np.log(-np.expm1(-x))
    return result


def softplus(x: ArrayLike) -> Array:
    """Return ln(1 + eˣ)."""
    return np.logaddexp(0.0, x)


def hazard(x: Array) -> Array:
    """Return φ(x)/Φ(x) for the normal distribution, the derivative of ln Φ."""
    from scipy.special import erfcx

    return np.sqrt(2 / np.pi) / erfcx(-x / np.sqrt(2))


def exp_multiple(rate: float, steps: NDArray[np.integer]) -> Array:
    """Return exp(rate·steps), accurate to a few units in the last place, for integers |steps| < 2²⁶.

    The rate is split into two halves whose products with the steps are exact (Veltkamp 1968).
    """
    shifted = rate * (2.0**27 + 1)
    high = shifted - (shifted - rate)
    return np.exp(high * steps) * np.exp((rate - high) * steps)


def logsumexp(x: ArrayLike, axis: int = -1) -> Array:
    """Return ln Σ eˣ along `axis`; −∞ where every x is −∞."""
    x = np.asarray(x, dtype=np.float64)
    top = np.max(x, axis=axis, keepdims=True)
    finite = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        result: Array = np.squeeze(finite, axis) + np.log(np.sum(np.exp(x - finite), axis=axis))
    return result


def rowwise(function: Callable[[NDArray[Any]], Array], table: NDArray[Any]) -> Array:
    """Return `function(table)`, computed in blocks of rows to limit memory.

    Each row of the result must depend only on the same row of `table`.
    """
    return np.concatenate([function(table[rows]) for rows in blocks(max(1, len(table)), _CELLS // table.shape[1])])


def log_two_outcomes(log_q: ArrayLike, log_r: ArrayLike, log_b: ArrayLike, exponent: ArrayLike) -> Array:
    """Return ln((1−q)·A^t + q·B^t) with A = (1−q)/(1−r).

    Both data-dependent theorems of PATE bound a log moment by this formula, where q is an upper bound on the
    probability that the label is not the plurality. Results below `LEAST` are rounded up to `LEAST`.

    Parameters
    ----------
    log_q, log_r, log_b : ln q, ln r and ln B, with q ≤ r ≤ 1 and B ≥ 1
    exponent : (…, exponents) exponents t > 0
    """
    # Evaluated as ln(1 + (1−q)(A^t − 1) + q(B^t − 1)), whose terms are all positive: nothing cancels for small q.
    log_q, log_r, log_b, exponent = (np.asarray(value, dtype=np.float64) for value in (log_q, log_r, log_b, exponent))
    with np.errstate(over="ignore"):
        log_a = np.log1p(np.exp(log_q + log_expm1(log_r - log_q) - log1mexp(log_r)))
    near = exponent * max(log_a.max(), log_b.max()) <= _PLAIN
    near &= log_q.min() >= -_PLAIN
    result = np.empty(np.broadcast_shapes(log_q.shape, log_b.shape, exponent.shape))
    for chosen, solve in ((near, _two_outcomes_plain), (~near, _two_outcomes_in_log_space)):
        if chosen.any():
            result[..., chosen] = solve(log_q, log_a, log_b, exponent[chosen])
    return result


def _two_outcomes_plain(log_q: Array, log_a: Array, log_b: Array, exponent: Array) -> Array:
    """Return ln((1−q)·A^t + q·B^t), computed directly. No power may overflow, and q may not underflow."""
    q = np.exp(log_q)
    return np.maximum(np.log1p((1 - q) * np.expm1(exponent * log_a) + q * np.expm1(exponent * log_b)), LEAST)


def _two_outcomes_in_log_space(log_q: Array, log_a: Array, log_b: Array, exponent: Array) -> Array:
    """Return ln((1−q)·A^t + q·B^t) for any ln q, ln A, ln B and exponents t, with large terms in log space."""
    likely = log1mexp(log_q) + log_expm1(exponent * log_a)
    rest = log_q + log_expm1(exponent * log_b)
    return np.maximum(softplus(np.logaddexp(likely, rest)), LEAST)
