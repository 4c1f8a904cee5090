"""Worst-case bounds on the (ε, δ) of T queries, without a search over Rényi orders.

There are bounds for these kinds of queries:

- counts with Gaussian noise (Balle & Wang 2018)
- ε-DP queries (Kairouz, Oh, Viswanath 2015)
- queries whose privacy loss has a bounded range (Durfee & Rogers 2019; Dong, Durfee, Rogers 2020)
- queries whose privacy loss takes evenly spaced values (Sommer, Meiser, Mohammadi 2019)

Derivation: docs/explanation/proofs-composition.md, "Bounds without a Rényi curve".
"""

import math

import numpy as np
from scipy.special import betainc, erfcx, gammaln, log_ndtr

from patebench.accounting import conversion, rdp
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated
from patebench.accounting.logspace import Array, log1mexp, log_expm1, softplus
from patebench.accounting.searches import bisect
from patebench.core.bound import Kind

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_EPS = float(np.finfo(np.float64).eps)

#: Upper bound on the absolute error of `_log_delta`. The largest term of ln δ is t²/2 ≤ 750. With R the Mills ratio,
#: the difference 1 − xR(x) is at least 1/1600 of each of its two terms.
_LOG_DELTA_ERROR = 4e-12

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def strong_composition(gamma: float, queries: int, delta: float) -> float:
    """Return the ε at `delta` of T = `queries` queries to LNMax(γ): 4Tγ² + 2γ√(2T ln 1/δ) (PATE 2017, appendix B)."""
    return 4 * queries * gamma * gamma + 2 * gamma * math.sqrt(2 * queries * math.log(1 / delta))


def cells_mu(sigma: float, cells: int) -> float:
    """Return the least μ for which counts with Gaussian noise N(0, σ²) are μ-GDP: √`cells`/σ.

    Neighbours differ in `cells` counts, by one each.
    """
    return math.sqrt(cells) / sigma if sigma > 0 else math.inf


def gaussian_dp(mu: float, delta: float) -> float:
    """Return the least ε for which a μ-GDP release is (ε, δ)-DP, rounded up."""
    if mu == 0:
        return 0.0
    if math.isinf(mu * mu):
        return math.inf
    # The search is over t, with ε = μt + μ²/2, which avoids cancellation for both large and small μ. t is at most √(2
    # ln 1/δ), since δ(ε) ≤ Φ(−t).
    target, least, high = math.log(delta) - _LOG_DELTA_ERROR, -mu / 2, math.sqrt(2 * math.log(1 / delta))
    if _log_delta(least, mu) <= target:
        return 0.0
    t = bisect(lambda t: _log_delta(t, mu) <= target, high, least, near=1e-13)
    return mu * (t + mu / 2) + 8 * _EPS * mu * (abs(t) + mu / 2)


def _log_delta(t: float, mu: float) -> float:
    """Return ln δ of μ-Gaussian DP at ε = μt + μ²/2, accurate in the tail (Balle & Wang 2018, Theorem 8)."""
    # At ε = μt + μ²/2, δ = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) equals φ(t)·(R(t) − R(t + μ)), R the Mills ratio.
    log_density = -t * t / 2 - _LOG_SQRT_2PI
    if mu <= 0.5:
        # The difference would cancel, so −dR/dx = 1 − xR(x) is integrated; the error of the quadrature is far below
        # rounding.
        x = t + mu * (1 + _NODES) / 2
        falls = 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
        return log_density + math.log(mu) + math.log(float(_WEIGHTS @ falls) / 2)
    first = float(log_ndtr(-t)) if t <= 0 else log_density + _log_mills(t)
    ratio = log_density + _log_mills(t + mu) - first if t <= 0 else _log_mills(t + mu) - _log_mills(t)
    return first + math.log(-math.expm1(ratio)) if ratio < 0 else -math.inf


def pure_composition(epsilon: float, queries: int, delta: float) -> float:
    """Return the least ε at `delta` of T = `queries` steps that are each `epsilon`-DP, rounded up.

    The worst case is randomised response, whose privacy loss per step is ±`epsilon` (Kairouz, Oh, Viswanath 2015,
    Theorem 3.3).
    Derivation: docs/explanation/proofs-composition.md, "Composition of pure privacy".
    """
    plain = queries * epsilon
    if plain == 0 or math.isinf(plain):
        return plain
    # p_i and q_i are the probabilities, on D and on D′, that i of the T steps have the loss −`epsilon`. The result is
    # the maximum over k of ln((Σ_{i≤k} p_i − δ) / Σ_{i≤k} q_i). By Hoeffding's inequality, Σ p_i over all i more than
    # 20·√T away from the mean is below e⁻⁸⁰⁰, which is below any δ. Omitting small i decreases Σ q_i and so increases
    # the result. For large k, Σ p_i is 1 up to rounding and Σ q_i still grows, so the maximum is at a smaller k.
    mean, away = queries * math.exp(-epsilon) / (1 + math.exp(-epsilon)), 20 * math.sqrt(queries) + 1
    i = np.arange(max(0, math.floor(mean - away)), min(queries, math.ceil(mean + away)) + 1)
    ways = float(gammaln(queries + 1))
    log_p = ways - gammaln(i + 1) - gammaln(queries - i + 1) - i * epsilon - queries * math.log1p(math.exp(-epsilon))
    log_q = log_p - (queries - 2 * i) * epsilon
    # Error of the terms: three logarithms of factorials, four units in the last place each, and multiples of ε up to
    # 2T. Error of the sums: one rounding per term, of at most the largest term plus ln of their number.
    largest = max(float(np.abs(log_p).max()), float(np.abs(log_q).max())) + math.log(len(i)) + 1
    rounding = 32 * _EPS * (ways + queries * (1 + epsilon)) + 2 * (len(i) + 2) * _EPS * largest
    log_p_sums = np.logaddexp.accumulate(log_p) + rounding
    log_q_sums = np.logaddexp.accumulate(log_q) - rounding
    exceeds = log_p_sums > math.log(delta)
    candidates = log_p_sums[exceeds] + log1mexp(math.log(delta) - log_p_sums[exceeds]) - log_q_sums[exceeds]
    return min(plain, max(0.0, float(np.max(candidates, initial=0.0))))


def _log_mills(x: float) -> float:
    """Return ln((1 − Φ(x))/φ(x)), the logarithm of the Gaussian Mills ratio, for x ≥ 0."""
    return math.log(math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2))))


#: Maximum number of steps for the optimal composition; a larger number is composed by the Rényi curve only.
_MOST_STEPS = 1 << 14

#: Upper bound on the relative error of an incomplete beta function, and the largest exponent without overflow.
_BETA_ERROR, _LARGEST_EXPONENT = 1e-11, 600.0

#: Upper bound on the relative rounding of a few operations, or of one multiplication in a transform.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


def bounded_range_rdp(eta: float, orders: Array) -> Array:
    """Return the largest Rényi divergence of a step whose privacy loss has a range of η, rounded up.

    Bounded range η means that the privacy loss always lies in one interval of length η, which need not be
    symmetric about 0 (Durfee & Rogers 2019). The result is at most αη²/8 (Cesar & Rogers 2021).
    Proof: docs/explanation/proofs-composition.md, "The divergence of bounded range".
    """
    orders = np.asarray(orders, dtype=np.float64)
    r = np.maximum(log_expm1(orders * eta) - log_expm1(eta) - np.log(orders), 0.0)
    share = orders / (orders - 1)
    divergence = share * r - softplus(np.log(share) + log_expm1(r)) + _ROUNDING * share * (r + 1)
    return np.minimum(divergence, np.minimum(orders * eta * eta / 8, eta))


def bounded_range_composition(eta: float, queries: int, delta: float) -> float:
    """Return the ε at `delta` of T = `queries` non-adaptive steps of bounded range η, rounded up.

    The privacy loss of each step lies in an interval of length η, and steps do not depend on earlier results. The
    result is the optimal composition of Dong, Durfee, Rogers 2020. If T exceeds `_MOST_STEPS` or ε is large, it is a
    bound from the Rényi curve `bounded_range_rdp` instead.
    """
    curve = queries * bounded_range_rdp(eta, conversion.ORDERS)
    high = min(queries * eta, float(np.min(conversion.tight(conversion.ORDERS, curve, delta))))
    if queries > _MOST_STEPS or high > _LARGEST_EXPONENT:
        return high

    def holds(epsilon: float) -> bool:
        return _bounded_range_delta(eta, queries, epsilon) <= delta

    return 0.0 if holds(0.0) else bisect(holds, high, 0.0, near=1e-10)


def _bounded_range_delta(eta: float, queries: int, epsilon: float) -> float:
    """Return the δ, rounded up, of `queries` non-adaptive steps of bounded range `eta` at ε = `epsilon`."""
    # In the worst case, the privacy loss of every step is t or t − η, with the same t from 0 to η in all T steps. The δ
    # of an event is its probability on D minus e^ε times that on D′. For the event that at most ℓ losses are t − η, δ
    # is greatest at t = (ε + (ℓ + 1)η)/(T + 1). The result is the greatest δ over all ℓ.
    low_losses = np.arange(queries)
    t = np.minimum((epsilon + (low_losses + 1) * eta) / (queries + 1), eta)
    p = np.expm1(t - eta) / math.expm1(-eta)
    p_event, q_event = (betainc(queries - low_losses, low_losses + 1, share) for share in (p, p * np.exp(-t)))
    return float(np.max(p_event * (1 + _BETA_ERROR) - math.exp(epsilon) * q_event * (1 - _BETA_ERROR)))


#: Maximum number of points of a transform; with more, ε is T·`top`.
_POINTS = 1 << 22


def lattice_composition(loss_probabilities: Array, top: float, queries: int, delta: float) -> float:
    """Return the least ε for which T = `queries` equal queries are together (ε, δ)-DP, rounded up.

    The privacy loss of one query takes evenly spaced values, from `top` down to −`top`. Let p_l be the probability of
    the total privacy loss l of T queries. Then δ(ε) is the sum of p_l·(1 − e^{ε − l}) over all l > ε (Sommer et al.
    2019, Lemma 5). If there are too many values of l, or δ is below the rounding error, the result is T·`top`, the ε of
    basic composition.

    Parameters
    ----------
    loss_probabilities : (losses,) probability of each privacy loss of one query, in descending order of the losses
    top : largest privacy loss of one query
    """
    plain, points = queries * top, queries * (len(loss_probabilities) - 1) + 1
    if plain == 0 or math.isinf(plain) or points > _POINTS:
        return plain
    size = 1 << (points - 1).bit_length()
    p: Array = np.maximum(np.fft.irfft(np.fft.rfft(loss_probabilities, size) ** queries, size)[:points], 0.0)
    losses = np.linspace(plain, -plain, points)
    positive = losses > 0
    p, losses = p[positive], losses[positive]
    # The T-th power of a spectrum below 1 adds a relative error of T roundings, and the transforms add log₂(size)
    # roundings. By Parseval's theorem, the error of the probabilities has the same 2-norm, and a 1-norm that is at most
    # √size times as large.
    remaining = delta - math.sqrt(size) * (queries + math.log2(size)) * _ROUNDING

    def holds(epsilon: float) -> bool:
        above = losses > epsilon
        return bool(np.sum(p[above] * -np.expm1(epsilon - losses[above])) <= remaining)

    if remaining <= 0:
        return plain
    return 0.0 if holds(0.0) else bisect(holds, plain, 0.0, near=1e-12)


def pure_accountants(theorem: str, epsilon: float, *, discrete: str | None = None) -> list[Accountant]:
    """Return two worst-case accountants for queries that are each `epsilon`-DP: by exact composition and by Rényi DP.

    `theorem` cites why a query is `epsilon`-DP. `discrete` is the reason why this also holds for discrete noise; None:
    it may not hold.
    """
    return [
        DirectAccountant(
            name="pld",
            kind=Kind.WORST_CASE,
            source=f"{theorem}; Kairouz, Oh, Viswanath 2015, Theorem 3.3",
            discrete=discrete,
            epsilon=lambda T, delta: pure_composition(epsilon, T, delta),
        ),
        RenyiAccountant(
            kind=Kind.WORST_CASE,
            source=f"{theorem}; Mironov 2017, Proposition 10",
            discrete=discrete,
            totals=repeated(lambda orders: rdp.pure(epsilon, orders)),
        ),
    ]
