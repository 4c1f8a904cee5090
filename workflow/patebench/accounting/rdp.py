"""Rényi accounting of GNMax by Scalable PATE (Papernot et al. 2018), and of LNMax by PATE 2017.

A curve contains the Rényi divergences of one query at orders α > 1. Curves of queries add up. A data-dependent curve
bounds D_α(M(D) ‖ M(D′)) for a mechanism M, the actual data D and any neighbour D′. Every data-dependent theorem starts
from q, an upper bound on the probability that the label is not the plurality of the votes.

LNMax(γ) releases argmax(counts + Lap(1/γ)), and one query is 2γ-DP. PATE 2017 (Papernot et al., *Semi-supervised
knowledge transfer*) states its theorems as log moments of the privacy loss. The l-th log moment is l times the Rényi
divergence of order l + 1.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from patebench.accounting.logspace import (
    LEAST,
    Array,
    log1mexp,
    log_expm1,
    log_two_outcomes,
    logsumexp,
    rowwise,
    softplus,
)


def gaussian(sigma: float, orders: ArrayLike) -> Array:
    """Return the data-independent Rényi curve of one query to GNMax(σ): α/σ² (Scalable PATE, Proposition 8)."""
    orders = np.asarray(orders, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        result: Array = np.maximum(orders / sigma / sigma, LEAST if np.isfinite(sigma) else 0.0)
    return result


def gaussian_data_dependent(log_q: Array, sigma: float, orders: ArrayLike) -> Array:
    """Return the data-dependent curve of GNMax(σ) per query: the smaller of Scalable PATE, Theorem 6, and α/σ².

    The theorem is used with μ₂ = σ√(ln 1/q), ε₂ = μ₂/σ² and μ₁ = μ₂ + 1 (Proposition 10). It needs μ₂ > 1, α ≤ μ₁,
    q e^{ε₂} < 1 and q ≤ e^{(μ₂−1)ε₂} / (μ₁/(μ₁−1) · μ₂/(μ₂−1))^{μ₂}. If one of these conditions fails, the
    data-independent bound is returned.

    Parameters
    ----------
    log_q : (queries,) upper bounds on ln Pr[the label is not the plurality]; see `gaussian_log_q`

    Returns
    -------
    (queries, orders) float array
    """
    orders = np.asarray(orders, dtype=np.float64)
    result = np.tile(gaussian(sigma, orders), (len(log_q), 1))
    if sigma == 0:
        return result
    mu = sigma * np.sqrt(-log_q)
    applies = mu > 1
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        epsilon = mu / sigma / sigma
        largest = (mu - 1) * epsilon - mu * (np.log1p(1 / mu) + np.log1p(1 / (mu - 1)))
        applies &= (log_q <= largest) & (log_q < -epsilon)
    if not np.any(applies):
        return result
    q, mu, epsilon = log_q[applies, None], mu[applies, None], epsilon[applies, None]
    log_r = (q + epsilon) * (1 - 1 / mu)
    log_b = (mu + 1) / sigma / sigma - q / mu
    theorem = log_two_outcomes(q, log_r, log_b, orders - 1) / (orders - 1)
    result[applies] = np.minimum(result[applies], np.where(orders <= mu + 1, theorem, np.inf))
    return result


def pure(epsilon: float, orders: ArrayLike) -> Array:
    """Return the largest Rényi divergence that ε-DP allows, attained by randomised response.

    It is ln((sinh(αε) − sinh((α−1)ε)) / sinh ε) / (α−1) (Bun & Steinke 2016, Proposition 3.3, in its proof; Mironov
    2017, Proposition 10).
    """
    # Evaluated as ln(1 + x) with x > 0, which keeps full accuracy for small ε.
    orders = np.asarray(orders, dtype=np.float64)
    if np.isinf(epsilon):
        return np.full_like(orders, np.inf)
    with np.errstate(over="ignore"):
        log_x = log_expm1((orders - 1) * epsilon) + log1mexp(-orders * epsilon) - softplus(-epsilon)
        result: Array = np.minimum(np.maximum(softplus(log_x) / (orders - 1), LEAST), epsilon)
    return result


def laplace(gamma: float, orders: ArrayLike) -> Array:
    """Return the data-independent Rényi curve of one query to LNMax(γ), which is 2γ-DP."""
    return pure(2 * gamma, orders)


def laplace_cell(gamma: float, orders: ArrayLike) -> Array:
    """Return the Rényi divergence, rounded up, of releasing one count with Laplace noise of scale 1/γ.

    Neighbours differ by one in this count.

    It is ln(α/(2α−1)·e^{(α−1)γ} + (α−1)/(2α−1)·e^{−αγ}) / (α−1) (Mironov 2017, Proposition 6).
    """
    # Terms of first order in γ cancel. So the formula is evaluated as ln(1 + x), with x > 0 the sum of the higher-order
    # terms of both exponentials.
    orders = np.asarray(orders, dtype=np.float64)
    up, down = (orders - 1) * gamma, -orders * gamma
    shares = orders / (2 * orders - 1), (orders - 1) / (2 * orders - 1)
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.log1p(shares[0] * _exp_beyond_linear(up) + shares[1] * _exp_beyond_linear(down))
        far = np.logaddexp(np.log(shares[0]) + up, np.log(shares[1]) + down)
    divergence = np.where(up < 30, near, far) / (orders - 1) * (1 + 1e-12)
    return np.minimum(np.maximum(divergence, LEAST), pure(gamma, orders))


def _exp_beyond_linear(x: Array) -> Array:
    """Return eˣ − 1 − x, precise near x = 0."""
    # Taylor series whose next term is below the rounding error.
    small = x * x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6))))
    return np.where(np.abs(x) < 1e-3, small, np.expm1(x) - x)


def laplace_data_dependent(log_q: Array, gamma: float, orders: ArrayLike) -> Array:
    """Return the data-dependent curve of LNMax(γ) per query (queries × orders).

    The curve is the smaller of PATE 2017, Theorem 1, at moment l = α − 1, and the curve of 2γ-DP. `log_q` (queries,)
    contains upper bounds on ln Pr[the label is not the plurality]; see `laplace_log_q`.
    """
    orders = np.asarray(orders, dtype=np.float64)
    theorem = moments_data_dependent(log_q, gamma, orders - 1) / (orders - 1)
    return np.minimum(theorem, laplace(gamma, orders))


#: Moments l that PATE 2017 tries.
PUBLISHED_MOMENTS = np.arange(1.0, 9.0)


def moments_data_independent(gamma: float, moments: ArrayLike) -> Array:
    """Return the worst-case log moment of LNMax(γ) at each moment l, for one query: min(2γ²l(l+1), 2γl).

    The first bound is PATE 2017, Theorem 3; the second follows from 2γ-DP alone.
    """
    moments = np.asarray(moments, dtype=np.float64)
    with np.errstate(over="ignore"):
        quadratic = np.maximum(2 * gamma * gamma * moments * (moments + 1), LEAST)
        result: Array = np.minimum(quadratic, 2 * gamma * moments)
    return result


def moments_data_dependent(log_q: Array, gamma: float, moments: ArrayLike) -> Array:
    """Return the log moments α(l) of LNMax(γ) per query: the smaller of a data-dependent and the worst-case bound.

    The data-dependent bound is Theorem 1 of PATE 2017. It needs q ≤ (e^{2γ}−1)/(e^{4γ}−1) = 1/(e^{2γ}+1); otherwise the
    worst case is returned.

    Parameters
    ----------
    log_q : (queries,) upper bounds on ln Pr[the label is not the plurality]; see `laplace_log_q`

    Returns
    -------
    (queries, moments) float array
    """
    moments = np.asarray(moments, dtype=np.float64)
    result = np.tile(moments_data_independent(gamma, moments), (len(log_q), 1))
    applies = log_q <= -np.logaddexp(0.0, 2 * gamma)
    if np.any(applies):
        q = log_q[applies, None]
        theorem = log_two_outcomes(q, np.minimum(q + 2 * gamma, 0.0), 2 * gamma, moments)
        result[applies] = np.minimum(result[applies], theorem)
    return result


#: Cap on γ and on −ln q, so that ∞ − ∞ never occurs; the cap rounds q up.
_LARGE = 1e290

#: Largest x for which e⁻ˣ needs no log space.
_PLAIN = 600.0


def _bound_log_q(counts: NDArray[np.integer], union_bound: Callable[[NDArray[np.integer]], Array]) -> Array:
    """Return an upper bound on ln Pr[the label is not the plurality] for each query.

    The bound is the smaller of ln(1 − 1/m), with m the number of classes, and the result of `union_bound`. This
    function takes the leads of the plurality over each other class in votes, (queries, classes − 1), ascending in each
    row.
    """

    def solve(rows: NDArray[np.integer]) -> Array:
        ordered = np.sort(rows, axis=1)
        return union_bound(ordered[:, -1:] - ordered[:, -2::-1])

    # The plurality is the likeliest of m outcomes, so its probability is at least 1/m.
    return np.maximum(np.minimum(rowwise(solve, counts), np.log1p(-1 / counts.shape[1])), -_LARGE)


def laplace_log_q(counts: NDArray[np.integer], gamma: float) -> Array:
    """Return an upper bound on ln Pr[LNMax(γ) does not return the plurality] per query (PATE 2017, Lemma 4).

    The bound is ln min(Σ_{j≠j*} (2 + γΔ_j)/(4 exp(γΔ_j)), 1 − 1/m), with m the number of classes and Δ_j the lead of
    the plurality j* over class j, in votes.
    """

    def union_bound(leads: NDArray[np.integer]) -> Array:
        scaled = min(gamma, _LARGE) * leads
        if scaled.max() > _PLAIN:
            result: Array = logsumexp(np.log1p(scaled / 2) - scaled) - np.log(2)
        else:
            result = np.log(((2 + scaled) * np.exp(-scaled)) @ np.ones(scaled.shape[1])) - np.log(4)
        return result

    return _bound_log_q(counts, union_bound)


def gaussian_log_q(counts: NDArray[np.integer], sigma: float) -> Array:
    """Return an upper bound on ln Pr[GNMax(σ) does not return the plurality] per query (Scalable PATE, Prop. 7).

    The bound is ln min(Σ_{j≠j*} ½ erfc(Δ_j/(2σ)), 1 − 1/m), with m the number of classes and Δ_j the lead of the
    plurality j* over class j, in votes.
    """

    def union_bound(leads: NDArray[np.integer]) -> Array:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            scaled = np.where(leads > 0, leads / (np.sqrt(2) * sigma), 0.0)
        return logsumexp(log_ndtr(-scaled))

    return _bound_log_q(counts, union_bound)
