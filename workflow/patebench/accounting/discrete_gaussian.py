"""Tight bounds for counts with discrete Gaussian noise, from the distribution of the privacy loss.

The noise N_Z(σ²) has Pr[z] ∝ exp(−z²/2σ²) on the integers (Canonne, Kamath, Steinke 2020). Every count has independent
noise. Neighbours differ in N counts, called *cells*, by one each. For T queries, N is 2T. Then

    δ(ε) ≤ E (1 − e^{ε − L})⁺,  L = (N/2 + Y)/σ²,

where L is the privacy loss, and Y is the sum of the noise of the N cells (Sommer, Meiser, Mohammadi 2019, Lemma 5). The
ε at which this bound is δ is computed in one of three ways:

- For σ below about 2, a Fourier transform gives upper bounds on Pr[Y = y] (`_losses_by_transform`).
- For larger σ, Y is nearly one discrete Gaussian of scale σ√N (Kairouz, Liu, Steinke 2021, Corollary 12).
- For very large σ√N or several noise scales, Y is compared with continuous noise (`_continuous_epsilon`).

The stated ε is the smaller of this ε and the ε by concentrated DP (Canonne, Kamath, Steinke 2020, Theorem 4). All
results are rounded up.

If several parties add the noise together, ε is computed by `shared_counts_epsilon` or `shared_table_epsilon`.
Proof: docs/explanation/proofs-noise.md, "Discrete Gaussian noise".
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from patebench.accounting import conversion, independent
from patebench.accounting.accountant import DirectAccountant
from patebench.accounting.logspace import LEAST, Array
from patebench.accounting.searches import bisect
from patebench.core.bound import Kind

#: Text in the source of a bound whose theorem is stated for discrete noise.
DISCRETE = "discrete noise: as the theorem has it"

_EPS = float(np.finfo(np.float64).eps)

#: Upper bound on the relative error of probabilities and of their sums.
_ROUNDING = 1e-11

#: Scale S = σ√N of the noise sum Y above which continuous noise is used instead, which increases ε by a relative 1/S².
_WIDE = 8192.0

#: Part of the noise variance that `_continuous_epsilon` uses to round continuous noise to integers, relative to the
#: whole variance. ε increases by about the same fraction.
_WIDENED = 1e-10

#: Largest τ (the result of `_bound_log_difference`) for which a sum of discrete Gaussians is treated as one discrete
#: Gaussian. σ is then above 1.8, and the normalising sum Σ exp(−y²/2S²) is nearly S√2π.
_SAME = 1e-13

#: Maximum number of points of a transform.
_POINTS = 1 << 22

#: −ln of the maximum fraction of δ that is cut off, and this fraction.
_CUT = 45.0
_BEYOND = math.exp(-_CUT)

#: Least σ for a transform; below it, the Rényi bound is used.
_LEAST = 0.05

#: Noise draws are cut off beyond this number of noise scales plus 2; the probability beyond is at most e⁻⁷¹.
_REACH = 12


def epsilon(sigma: float, cells: int, delta: float) -> float:
    """Return the ε at `delta`, rounded up, of releasing counts with discrete Gaussian noise.

    Every count has independent noise of scale `sigma`. Neighbours differ in `cells` counts, by one each.
    """
    mu = independent.cells_mu(sigma, cells)
    if mu == 0:
        return 0.0
    scale, limit = sigma * math.sqrt(cells), _concentrated_epsilon(mu, delta)
    if math.isinf(limit):
        return limit
    if _bound_log_difference(sigma, max(cells, 2)) > _SAME:
        losses = _losses_by_transform(sigma, cells, delta)
    elif scale <= _WIDE:
        losses = _losses_of_one_gaussian(sigma, cells, delta)
    else:
        return min(limit, _continuous_epsilon([(sigma, cells)], delta))
    return limit if losses is None else min(limit, losses.least_epsilon())


def several(groups: Sequence[tuple[float, int]], delta: float) -> float:
    """Return the ε at `delta`, rounded up, of releasing counts with discrete Gaussian noise of several scales.

    `groups` contains one pair (σ, cells) per noise scale: neighbours differ in `cells` of the counts that have noise of
    scale σ, by one each.
    """
    if min(sigma for sigma, _ in groups) == 0:
        return math.inf
    mu = math.hypot(*(math.sqrt(cells) / sigma for sigma, cells in groups))
    if mu == 0:
        return 0.0
    return min(_concentrated_epsilon(mu, delta), _continuous_epsilon(groups, delta))


def accountant(epsilon: Callable[[int, float], float], losses: str) -> DirectAccountant:
    """Return an accountant for discrete Gaussian noise, where `epsilon(T, δ)` is the ε of T queries at δ.

    `losses` describes the privacy loss of T queries in words, for the citation of each bound.
    """
    return DirectAccountant(
        name="pld",
        kind=Kind.WORST_CASE,
        source=f"Canonne, Kamath, Steinke 2020; Sommer, Meiser, Mohammadi 2019, Lemma 5, for {losses}",
        discrete=DISCRETE,
        epsilon=epsilon,
    )


def _continuous_epsilon(groups: Sequence[tuple[float, int]], delta: float) -> float:
    """Return an ε at `delta` for the release that `several` describes, by comparison with continuous Gaussian noise.

    The result is ∞ if a noise scale σ is too small for this bound.
    """
    mu, tau = 0.0, 0.0
    for sigma, cells in groups:
        if math.isinf(sigma):
            continue
        squared = sigma * sigma * cells
        rounding = 2 + _WIDENED * squared
        if not rounding < squared:
            return math.inf
        # Proof: docs/explanation/proofs-noise.md, "Discrete noise as rounded continuous noise".
        tau += _bound_log_difference(sigma, cells) + 10 * math.exp(-2 * math.pi**2 * rounding)
        mu = math.hypot(mu, cells / math.sqrt(squared - rounding))
    if not tau < 1:
        return math.inf
    return independent.gaussian_dp(mu * (1 + 16 * _EPS), delta * math.exp(-tau)) + 2 * tau


@dataclass(frozen=True)
class _Losses:
    """Upper bounds on the distribution of the privacy loss of counts with discrete Gaussian noise of scale σ.

    Neighbours differ in `cells` counts by one each, and Y is the sum of the noise of these counts. The privacy loss is
    (`cells`/2 + Y)/σ².
    """

    weights: Array  # bounds on Pr[Y = y]/δ for y = lowest, lowest + 1, …, with δ the one for which ε is computed
    lowest: int  # least stored noise sum y
    sigma: float
    cells: int

    def least_epsilon(self) -> float:
        """Return the least ε ≥ 0, rounded up, at which releasing the counts is (ε, δ)-DP by the bounds in `weights`.

        The bounds begin at the noise sum `lowest`. The result is therefore never below the privacy loss of this noise
        sum.
        """
        if self._delta_ratio(0) <= 1:
            return self._epsilon(0, 0.0)
        # δ(ε) falls below the target δ between two values of ε, the privacy losses of the noise sums k − 1 and k. Let ε
        # be the privacy loss of k − s, with 0 ≤ s ≤ 1. Then δ(ε) = A − (A − D)e^{−s/σ²}, where A = Pr[Y ≥ k], and D is
        # δ(ε) for s = 0.
        last = len(self.weights) - 1
        k = bisect(lambda index: self._delta_ratio(index) <= 1, last, 0)
        above = float(np.sum(self.weights[k:])) * (1 + _ROUNDING) + _BEYOND
        fraction = math.log1p((1 - self._delta_ratio(k)) / (above - 1)) * self.sigma * self.sigma
        return self._epsilon(k, min(fraction, 1.0))

    def _delta_ratio(self, index: int) -> float:
        """Return the ratio of δ(ε) to the target δ, with ε the privacy loss of the noise sum `lowest` + `index`."""
        above = self.weights[index + 1 :]
        with np.errstate(under="ignore"):
            gains = -np.expm1(-np.arange(1, len(above) + 1) / (self.sigma * self.sigma))
        return float(above @ gains) * (1 + _ROUNDING) + _BEYOND

    def _epsilon(self, index: int, fraction: float) -> float:
        place = self.cells / 2 + self.lowest + index - fraction
        slack = 16 * _EPS * (self.cells + abs(self.lowest) + index + 1)
        return max(0.0, (place + slack) / (self.sigma * self.sigma))


def _losses_of_one_gaussian(sigma: float, cells: int, delta: float) -> _Losses:
    """Return bounds on the privacy loss of `cells` counts; the sum of their noise is taken as one discrete Gaussian."""
    mu, scale = math.sqrt(cells) / sigma, sigma * math.sqrt(cells)
    t = independent.gaussian_dp(mu, delta) / mu - mu / 2
    # For continuous noise, ε is the privacy loss of the noise sum t·scale. Noise sums that are smaller by more than
    # about one scale are left out.
    lowest = max(math.floor((t - 1) * scale) - 3, _least_noise_sum(cells))
    y = np.arange(lowest, _greatest_noise_sum(scale, delta) + 1)
    log_weights = -((y / scale) ** 2) / 2 - math.log(scale * math.sqrt(2 * math.pi)) - math.log(delta)
    return _Losses(_weights(log_weights), lowest, sigma, cells)


def _losses_by_transform(sigma: float, cells: int, delta: float) -> _Losses | None:
    """Return bounds on the privacy loss of `cells` counts, by a Fourier transform of the noise distribution.

    Return None if σ is too small for the transform, or the transform too large.
    """
    if sigma < _LEAST:
        return None
    # Draws are exponentially tilted, so that the losses that determine δ have high relative precision.
    # Proof: docs/explanation/proofs-noise.md, "Sums of discrete Gaussians by a Fourier transform".
    c = _find_tilt(sigma, math.log(1 / delta) / cells)
    z, p, log_sum = _tilted_distribution(sigma, c)
    mean = float(p @ z)
    spread = math.sqrt(cells * float(p @ (z - mean) ** 2))
    lowest = max(math.floor(cells * mean - 12 * spread) - 4, _least_noise_sum(cells))
    last = max(_greatest_noise_sum(sigma * math.sqrt(cells), delta), lowest + 1)
    wide = last - lowest + 24 * spread + 64
    if wide > _POINTS:
        return None
    q, error = _convolve_power(p, cells, 1 << math.ceil(math.log2(wide)))
    y = np.arange(lowest, last + 1)
    near = q[(y - cells * int(z[0])) % len(q)] + error + cells * math.exp(-71)
    exponent = float(np.max((z - c) ** 2)) / (2 * sigma * sigma)
    slack = cells * _EPS * (32 + 4 * exponent + 4 * c * c / sigma / sigma)
    constant = cells * (log_sum - _tilted_distribution(sigma, 0.0)[2]) - math.log(delta) + slack
    return _Losses(_weights(np.log(near) - c / sigma / sigma * (y - cells * c / 2) + constant), lowest, sigma, cells)


def _convolve_power(p: Array, draws: int, size: int) -> tuple[Array, float]:
    """Return the distribution of the sum of `draws` samples from `p`, modulo `size`, and a bound on its errors.

    `p` contains the probabilities of 0, 1, 2, …; the distribution contains those of the sums 0 … `size` − 1.
    """
    turn = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    spectrum = np.polyval(p[::-1], turn)
    # All numbers are at most 1. The N-th power has N times the rounding error of the spectrum, plus its own.
    once = 16 * len(p) * _EPS
    with np.errstate(under="ignore"):
        steep = np.minimum(np.abs(spectrum) + once, 1 + once) ** (draws - 1)
        q = np.maximum(np.fft.irfft(spectrum**draws, size), 0.0)
    of_spectrum = draws * (once + 16 * _EPS) * 2 * float(np.sum(steep)) / size
    # The inverse adds log₂(size) roundings in the 2-norm (Higham 2002, Theorem 24.2).
    of_inverse = 16 * _EPS * math.log2(size) * float(np.linalg.norm(q))
    return q, 2 * (of_spectrum + of_inverse)


def _tilted_distribution(sigma: float, centre: float) -> tuple[Array, Array, float]:
    """Return integers z around c = `centre`, their probabilities ∝ e^{−(z − c)²/2σ²}, and ln Σ e^{−(z − c)²/2σ²}."""
    reach = math.ceil(_REACH * sigma) + 2
    z = np.arange(math.floor(centre) - reach, math.floor(centre) + reach + 2, dtype=np.float64)
    exponents = -((z - centre) ** 2) / (2 * sigma * sigma)
    top = float(exponents.max())
    weights = np.exp(exponents - top)
    return z, weights / weights.sum(), top + math.log(float(weights.sum()))


def _find_tilt(sigma: float, rate: float) -> float:
    """Return the centre c around which the distribution of the noise is tilted (`_tilted_distribution`).

    Let m(c) be the mean of discrete Gaussian noise of scale `sigma` around c. Chernoff's inequality states that the
    mean of n draws around 0 is at least m(c) with probability at most e^{−n·I(c)}, where I(c) does not depend on n. The
    result is the least c with I(c) ≥ `rate`.
    """
    log_sum = _tilted_distribution(sigma, 0.0)[2]

    def passes(c: float) -> bool:
        z, p, tilted = _tilted_distribution(sigma, c)
        # −ln of the bound, per draw, that the mean of untilted draws reaches the mean of tilted ones.
        return c * (float(p @ z) - c / 2) / sigma / sigma - (tilted - log_sum) >= rate

    return bisect(passes, sigma * math.sqrt(2 * rate) + 1, 0.0, near=1e-6)


def _weights(log_weights: Array) -> Array:
    """Return exp(`log_weights`), rounded up and without overflow."""
    with np.errstate(under="ignore"):
        result: Array = np.exp(np.minimum(log_weights, 700.0)) * (1 + _ROUNDING) + 1e-300
    return result


def _least_noise_sum(cells: int) -> int:
    """Return the first noise sum to store for `cells` counts: all sums below it have negative privacy losses.

    Negative losses do not affect δ(ε) at ε ≥ 0.
    """
    return -(cells // 2) - 1


def _greatest_noise_sum(scale: float, delta: float) -> int:
    """Return an integer that noise of scale `scale` exceeds with a probability that is negligible beside `delta`."""
    return math.ceil(scale * math.sqrt(2 * (math.log(1 / delta) + _CUT)))


def _bound_log_difference(sigma: float, cells: int) -> float:
    """Return a bound on |ln Pr[Y = y] − ln Pr[Z = y]| for all y; ∞ if σ = `sigma` is too small.

    Y is a sum of `cells` discrete Gaussians of scale σ, and Z is one discrete Gaussian of scale σ√`cells`.
    """
    turns = math.pi * sigma
    return 10 * (cells - 1) * math.exp(-turns * turns) if sigma >= 0.5 or cells == 1 else math.inf


def _concentrated_epsilon(mu: float, delta: float) -> float:
    """Return the ε at `delta` of a release that is ½μ²-concentrated DP, with μ = `mu`."""
    if math.isinf(mu * mu):
        return math.inf
    # αμ²/2, which is ½μ²-concentrated DP
    curve = np.maximum(conversion.ORDERS * (mu * mu / 2), LEAST)
    return float(np.min(conversion.tight(conversion.ORDERS, curve, delta)))


#: Least scale of a share for which the theorem holds.
LEAST_SHARE = 0.5


def share_difference(share: float, shares: int) -> float:
    """Return τ, a bound on |ln Pr[Y = y] − ln Pr[Z = y]| for all y.

    Each of `shares` parties adds discrete Gaussian noise of scale `share`. Y is the sum of the noise of all parties. Z
    is one discrete Gaussian of scale `share`·√`shares`. The result is ∞ if `share` is below `LEAST_SHARE` = 1/2, since
    the theorem needs at least this scale.
    """
    if share < LEAST_SHARE:
        return math.inf
    share = min(share, 1e150)  # avoids overflow of the square; τ is already 0 here
    k = np.arange(1, shares)
    return float(10 * np.exp(-2 * math.pi**2 * share**2 * k / (k + 1)).sum())


def shared_counts_epsilon(sigma: float, shares: int, queries: int, delta: float) -> float:
    """Return the ε at `delta` of releasing all counts of `queries` queries, with noise that several parties add.

    The noise of a count is the sum of `shares` discrete Gaussians of variance σ²/`shares`. One teacher changes two
    counts of every query, by one each. If only m votes of each teacher are counted, pass m as `queries`.

    The result is the smaller of two bounds. The first is by the Rényi curve `shared_counts`. The second is by
    comparison with a single discrete Gaussian of scale σ per count (see `share_difference`).
    """
    curve = queries * shared_counts(sigma, shares, conversion.ORDERS)
    limit = float(np.min(conversion.tight(conversion.ORDERS, curve, delta)))
    # On the 2T changed counts, the probabilities of the summed and of the single noise differ by a factor from e^{−x}
    # to e^x, with x = `tau`. So δ(ε) ≤ e^x δ°(ε − 2x), where δ° is for the single noise.
    if sigma == 0 or (tau := 2 * queries * share_difference(sigma / math.sqrt(shares), shares)) > 1:
        return limit
    return min(limit, epsilon(sigma, 2 * queries, delta * math.exp(-tau)) + 2 * tau)


def shared_table_epsilon(sigma: float, shares: int, squared_distance: float, cells: int, delta: float) -> float:
    """Return the ε at `delta` of releasing a table of integers, with noise that several parties add.

    The noise of a cell is the sum of `shares` discrete Gaussians of variance σ²/`shares`. The tables of neighbours
    differ in at most `cells` cells, and their L2 distance is at most √`squared_distance`.

    The result is the smaller of two bounds. The first is by the Rényi curve `shared_counts`. The second is by
    comparison with continuous Gaussian noise.
    Proof: docs/explanation/proofs-noise.md, "Discrete noise as rounded continuous noise".
    """
    curve = shared_counts(sigma, shares, conversion.ORDERS, squared_distance=squared_distance, cells=cells)
    limit = float(np.min(conversion.tight(conversion.ORDERS, curve, delta)))
    variance = sigma * sigma
    rounding = 2 + _WIDENED * variance
    if not rounding < variance:
        return limit
    each = share_difference(sigma / math.sqrt(shares), shares) + 10 * math.exp(-2 * math.pi**2 * rounding)
    if not (x := cells * each) < 1:
        return limit
    # The noise is compared with continuous noise of variance σ² − r² that is rounded at random, with variance r² =
    # `rounding`. On the changed cells, the probabilities differ by a factor from e^{−x} to e^x. So δ(ε) ≤
    # e^x δ°(ε − 2x), where δ° is that of the Gaussian mechanism.
    mu = math.sqrt(squared_distance / (variance - rounding))
    return min(limit, independent.gaussian_dp(mu * (1 + 16 * _EPS), delta * math.exp(-x)) + 2 * x)


def shared_counts(
    sigma: float, shares: int, orders: ArrayLike, *, squared_distance: float = 2, cells: int = 2
) -> Array:
    """Return the Rényi curve of releasing a table of integers, with noise that several parties add.

    The noise of a cell is the sum of `shares` discrete Gaussians of variance σ²/`shares`. The tables of neighbours
    differ in at most d = `cells` cells, and their L2 distance is at most Δ = √`squared_distance`. By default, one vote
    changes two counts of a query by one each. The divergence is αε²/2 with ε = Δ/σ + τ√d, where τ is the result of
    `share_difference` (Kairouz, Liu, Steinke 2021, Theorem 1).
    """
    orders = np.asarray(orders, dtype=np.float64)
    if sigma == 0:
        return np.full_like(orders, np.inf)
    difference = share_difference(sigma / math.sqrt(shares), shares)
    epsilon = math.sqrt(cells) * (math.sqrt(squared_distance / cells) / sigma + difference)
    return orders * epsilon**2 / 2
