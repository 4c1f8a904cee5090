"""Bounds on T queries that hold whatever the votes are, given as (ε, δ) without a Rényi curve.

They need no private data, so they may be published.
"""

import math

import numpy as np
from scipy.special import erfcx, gammaln, log_ndtr

from patebench.accounting.calibrate import arithmetic, bisect
from patebench.accounting.logspace import log1mexp

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_EPS = float(np.finfo(np.float64).eps)

#: What rounding may take from ln δ of Gaussian DP, with room to spare: t²/2 ≤ 750, 1 − xR(x) ≥ 1/1600 of its terms.
_LOG_DELTA_ERROR = 4e-12

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def strong_composition(gamma: float, queries: int, delta: float) -> float:
    """ε of T queries to LNMax(γ) as PATE 2017 states it (appendix B): 4Tγ² + 2γ√(2T ln 1/δ)."""
    return 4 * queries * gamma * gamma + 2 * gamma * math.sqrt(2 * queries * math.log(1 / delta))


def gnmax_mu(sigma: float, queries: int) -> float:
    """T queries to GNMax(σ) are √(2T)/σ-GDP: one vote changes two counts by one each, an L2 distance of √2."""
    return cells_mu(sigma, 2 * queries)


def cells_mu(sigma: float, cells: int) -> float:
    """Counts with noise N(0, σ²), of which so many move by one each, are √cells/σ-GDP."""
    return math.sqrt(cells) / sigma if sigma > 0 else math.inf


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """ln δ(ε) of μ-GDP, exactly: δ = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) (Balle & Wang 2018, Theorem 8)."""
    return _log_delta(epsilon / mu - mu / 2, mu)


def gaussian_dp(mu: float, delta: float) -> float:
    """The least ε for which a μ-GDP release is (ε, δ)-DP, rounded up.

    Looked for as ε = μt + μ²/2, with t ≤ √(2 ln 1/δ) since δ(ε) ≤ Φ(−t): so neither a huge μ nor a tiny one cancels.
    """
    if mu == 0:
        return 0.0
    if math.isinf(mu * mu):
        return math.inf
    target, least, high = math.log(delta) - _LOG_DELTA_ERROR, -mu / 2, math.sqrt(2 * math.log(1 / delta))
    if _log_delta(least, mu) <= target:
        return 0.0
    t = bisect(lambda t: _log_delta(t, mu) <= target, high, least, halve=arithmetic, near=1e-13)
    return mu * (t + mu / 2) + 8 * _EPS * mu * (abs(t) + mu / 2)


def _log_delta(t: float, mu: float) -> float:
    """ln δ of μ-GDP at ε = μt + μ²/2: φ(t)·(R(t) − R(t + μ)), R the Mills ratio, which loses nothing in the tail.

    R′(x) = xR(x) − 1. For a small μ the difference would cancel; it is the integral of 1 − xR(x) from t to t + μ, by
    Gauss's rule, whose error at μ ≤ 1/2 is far below rounding.
    """
    log_density = -t * t / 2 - _LOG_SQRT_2PI
    if mu <= 0.5:
        x = t + mu * (1 + _NODES) / 2
        falls = 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
        return log_density + math.log(mu) + math.log(float(_WEIGHTS @ falls) / 2)
    first = float(log_ndtr(-t)) if t <= 0 else log_density + _log_mills(t)
    ratio = log_density + _log_mills(t + mu) - first if t <= 0 else _log_mills(t + mu) - _log_mills(t)
    return first + math.log(-math.expm1(ratio)) if ratio < 0 else -math.inf


def pure_composition(epsilon: float, queries: int, delta: float) -> float:
    """The least ε of T steps that are each `epsilon`-DP, rounded up: a sum over the losses of the worst such steps.

    Randomised response dominates (Kairouz, Oh, Viswanath 2015, Theorem 3.3): the loss is (T − 2i)·epsilon with the
    binomial probability p_i, and q_i on the neighbour. δ(ε) = Σ_i (p_i − e^ε q_i)⁺ = max_k Σ_{i≤k} (p_i − e^ε q_i), so
    the least ε is the largest over k of ln((Σ_{i≤k} p_i − δ) / Σ_{i≤k} q_i): no grid, no truncation. It grows with each
    Σ p_i and falls with each Σ q_i, so what rounding may have taken from the one is added, and from the other taken.
    """
    plain = queries * epsilon
    if plain == 0 or math.isinf(plain):
        return plain
    # Hoeffding: beyond 20·√T of the mean lies less than e⁻⁸⁰⁰, below any δ. Without it Σ q_i is smaller, and ε larger;
    # above it Σ p_i is 1 to rounding, and Σ q_i grows, so no largest is there.
    mean, away = queries * math.exp(-epsilon) / (1 + math.exp(-epsilon)), 20 * math.sqrt(queries) + 1
    i = np.arange(max(0, math.floor(mean - away)), min(queries, math.ceil(mean + away)) + 1)
    ways = float(gammaln(queries + 1))
    log_p = ways - gammaln(i + 1) - gammaln(queries - i + 1) - i * epsilon - queries * math.log1p(math.exp(-epsilon))
    log_q = log_p - (queries - 2 * i) * epsilon
    # Terms: three logarithms of factorials, each right to four units in the last place, and multiples of ε up to 2T.
    # Sums and what follows: a rounding for each term that was added, of at most the largest and ln of their number.
    largest = max(float(np.abs(log_p).max()), float(np.abs(log_q).max())) + math.log(len(i)) + 1
    lost = 32 * _EPS * (ways + queries * (1 + epsilon)) + 2 * (len(i) + 2) * _EPS * largest
    likely = np.logaddexp.accumulate(log_p) + lost
    rare = np.logaddexp.accumulate(log_q) - lost
    exceeds = likely > math.log(delta)
    candidates = likely[exceeds] + log1mexp(math.log(delta) - likely[exceeds]) - rare[exceeds]
    return min(plain, max(0.0, float(np.max(candidates, initial=0.0))))


def _log_mills(x: float) -> float:
    """ln of the Mills ratio (1 − Φ(x))/φ(x), for x ≥ 0."""
    return math.log(math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2))))
