"""Rényi bounds for the sparse vector technique, in which only failed tests cost privacy.

Each query q has a score d(q), which is compared with a threshold w. The noise ρ of the threshold is drawn once. The
noise ν of the score is drawn for every query. Query q passes if d(q) + ν > w + ρ, and fails otherwise. After `cutoff`
failed queries, no more queries are tested (Lyu, Su, Li 2017, Algorithm 7, with passing and failing exchanged).
One teacher changes every d(q) by at most 1.

Theorem. Let R(α) be the Rényi divergence of ρ from ρ + 1, T the number of queries and c = min(`cutoff`, T). For any x,
let u = Pr[ν ≤ x] and u′ = Pr[ν ≤ x − 2]. Let K ≥ 1 and B ≥ 0 be constants with, for all x,

    u^α u′^{1−α}  ≤  K·(1 − (1−u)^α (1−u′)^{1−α}) + B.                                                              (*)

Then D_α(M(D) ‖ M(D′)) ≤ R(α) + ln N/(α − 1), where N = Σ_{i≤c} C(T, i) Bⁱ K^{c−i}.
Proof (ours; Zhu & Wang 2020 introduced the Gaussian form): docs/explanation/proofs-composition.md, "The sparse vector
technique".
"""

from functools import cache

import numpy as np
from scipy.special import gammaln, log_ndtr, ndtr

from patebench.accounting.logspace import Array, hazard, log1mexp, logsumexp, softplus
from patebench.accounting.rdp import laplace_cell

#: Number of nodes at which (*) is checked, and of values of K that are tried.
_NODES, _TRIED = 4096, 32

#: Number of standard deviations of ν beyond which one bound covers a whole tail, without nodes.
_REACH = 10.0

#: Upper bound on the relative rounding error.
_SLACK = 1e-9

#: Upper limit of ln g, where g is the left side of (*), and upper limit of K.
_LARGEST, _MOST = 300.0, 1e150


def laplace(threshold_scale: float, test_scale: float, queries: int, cutoff: int, orders: Array) -> Array:
    """Return a Rényi bound, at each order, on the sparse vector technique with Laplace noise.

    Testing stops after `queries` scores, or earlier after `cutoff` failed tests. The threshold has noise of scale b₁ =
    `threshold_scale`, and each score has noise of scale b₂ = `test_scale`. The limit at α = ∞ is the standard pure
    bound 1/b₁ + 2c/b₂, where c is the largest possible number of failed tests.
    Proof: docs/explanation/proofs-composition.md, "The sparse vector technique with Laplace noise".
    """
    eta, failures = 2 / test_scale, min(cutoff, queries)
    log_q = -softplus(eta)
    log_k = log_q + orders * eta - log1mexp(log_q - (orders - 1) * eta)
    per_failure = np.minimum(log_k / (orders - 1), eta)
    return laplace_cell(1 / threshold_scale, orders) + failures * per_failure


def gaussian(threshold_sigma: float, test_sigma: float, queries: int, cutoff: int, orders: Array) -> Array:
    """Return a Rényi bound, at each order, on the sparse vector technique with Gaussian noise.

    Testing stops after `queries` scores, or earlier after `cutoff` failed tests. The threshold has noise of scale
    `threshold_sigma`, and each score has noise of scale `test_sigma`. Several pairs of constants K and B are tried in
    the theorem of this module. At each order, the pair with the smallest bound is used. The result is ∞ at orders α
    where the Rényi divergence of a single test is 300/(α − 1) or more.
    """
    shift, result = 2 / test_sigma, np.full(orders.shape, np.inf)
    tried = orders * (orders - 1) * shift * shift / 2 < _LARGEST
    if not np.any(tried):
        return result
    failures, used = min(cutoff, queries), orders[tried]
    log_k, log_b = (constant[:, :, None] for constant in _gaussian_constants(shift, tuple(used)))
    i = np.arange(failures + 1)
    log_choose = gammaln(queries + 1) - gammaln(i + 1) - gammaln(queries - i + 1)
    with np.errstate(invalid="ignore"):
        powers = np.where(i > 0, i * log_b, 0.0) + (failures - i) * log_k
    log_n = np.min(logsumexp(log_choose + powers), axis=1)
    result[tried] = used / (2 * threshold_sigma**2) + log_n / (used - 1)
    return result


@cache
def _gaussian_constants(shift: float, orders: tuple[float, ...]) -> tuple[Array, Array]:
    """Return ln K and ln B for several pairs of constants that satisfy inequality (*) of the module, (orders × pairs).

    They hold for test noise ν ~ N(0, 1) and u′ = Pr[ν ≤ x − `shift`] in (*).
    """
    order = np.array(orders)[:, None]
    x = np.linspace(-_REACH - (order[:, 0] - 1) * shift, _REACH, _NODES, axis=1)
    ahead, behind = hazard(x), hazard(x - shift)
    log_g = order * log_ndtr(x) - (order - 1) * log_ndtr(x - shift)
    log_passed = order * log_ndtr(-x) - (order - 1) * log_ndtr(shift - x)
    failed = np.maximum(-np.expm1(np.minimum(log_passed, 0.0)), ndtr(x)) * (1 - _SLACK)
    most = order * (order - 1) * shift * shift / 2
    steepest = np.maximum(order * ahead[:, :-1] - (order - 1) * behind[:, 1:], 0.0)
    between = np.minimum(log_g[:, :-1] + steepest * np.diff(x), most)
    slope = order * ahead - (order - 1) * behind
    first = np.where(slope[:, :1] >= 0, log_g[:, :1], most)
    last = np.where(slope[:, -1:] <= 0, log_g[:, -1:], most)
    peaks = np.exp(np.hstack([first, between, last])) * (1 + _SLACK)
    floors = np.hstack([np.zeros_like(first), failed])
    with np.errstate(divide="ignore", over="ignore"):
        # The pairs of an order are alternatives: the larger K, the smaller B.
        # Proof: docs/explanation/proofs-composition.md, "Constants of the sparse vector technique".
        k = np.clip(np.exp(log_g - np.log(failed))[:, :: _NODES // _TRIED], 1.0, _MOST)
        b = [np.max(peaks - column[:, None] * floors, axis=1, initial=0.0) for column in k.T]
        return np.log(k), np.log(np.stack(b, axis=1))
