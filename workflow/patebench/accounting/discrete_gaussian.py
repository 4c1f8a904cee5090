"""Compute tight bounds for discrete Gaussian noise: the privacy loss distribution of counts that move by one.

N_Z(σ²) has Pr[z] ∝ exp(−z²/2σ²) on the integers (Canonne, Kamath, Steinke 2020). Each of N *cells*, counts with
independent noise N_Z(σ²), moves by one: N = 2T for T queries. Then

    δ(ε) ≤ E_P (1 − e^{ε − L})⁺,  L = (N/2 + Y)/σ²,

with Y the sum of N draws (Sommer, Meiser, Mohammadi 2019, Lemma 5). Pr[Y = y] is bounded from above by one discrete
Gaussian (Kairouz, Liu, Steinke 2021, Corollary 12), by a Fourier transform (`_convolved`) or by continuous noise
(`_continuous`); where these fail the bound of Canonne, Kamath, Steinke 2020, Theorem 4, stands. Everything is rounded
up. Noise that m parties add costs ½ε²-concentrated with ε = Δ/(√m·σ_s) + τ√d (Kairouz, Liu, Steinke 2021, Theorem 1).
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
from patebench.accounting.searches import arithmetic, bisect
from patebench.core.bound import Conversion, Kind

#: Why a theorem that is one on discrete noise holds for it.
DISCRETE = "discrete noise: as the theorem has it"

_EPS = float(np.finfo(np.float64).eps)

#: Relative error of probabilities and of sums of them, with room to spare.
_ROUNDING = 1e-11

#: A sum of cells whose scale S is larger is taken for continuous: ε grows by 1/S² of itself.
_WIDE = 8192.0

#: For the variance of a rounding, as a part of the whole: what ε grows by.
_WIDENED = 1e-10

#: The greatest τ with which sums of discrete Gaussians are taken for one. σ is then above 1.8, where Σ exp(−y²/2S²) is
#: next to S√2π.
_SAME = 1e-13

#: More points are not transformed.
_POINTS = 1 << 22

#: What is cut off has this part of δ at most, e⁻⁴⁵.
_CUT = 45.0

#: With less noise nothing is transformed: the Rényi bound stands.
_LEAST = 0.05

#: A draw lies so many scales, and two more, from the centre of its weights but for a probability of e⁻⁷¹.
_REACH = 12


def epsilon(sigma: float, cells: int, delta: float) -> float:
    """The least ε for which counts with noise N_Z(σ²) are (ε, δ)-DP if so many of them (`cells`) move by one each."""
    mu = math.sqrt(cells) / sigma if sigma > 0 else math.inf
    if mu == 0:
        return 0.0
    scale, limit = sigma * math.sqrt(cells), _concentrated(mu, delta)
    if math.isinf(limit):
        return limit
    if _log_difference(sigma, max(cells, 2)) > _SAME:
        losses = _convolved(sigma, cells, delta)
    elif scale <= _WIDE:
        losses = _one(sigma, cells, delta)
    else:
        return min(limit, _continuous([(sigma, cells)], delta))
    return limit if losses is None else min(limit, losses.least_epsilon())


def several(groups: Sequence[tuple[float, int]], delta: float) -> float:
    """The same for cells of several scales, as (σ, cells): by continuous noise, or the Rényi bound."""
    if min(sigma for sigma, _ in groups) == 0:
        return math.inf
    mu = math.hypot(*(math.sqrt(cells) / sigma for sigma, cells in groups))
    if mu == 0:
        return 0.0
    return min(_concentrated(mu, delta), _continuous(groups, delta))


def accountant(epsilon: Callable[[int, float], float], how: str) -> DirectAccountant:
    """The accountant of ε for T queries at δ, for discrete noise alone; `how` says what the privacy loss is."""
    return DirectAccountant(
        name="pld",
        kind=Kind.WORST_CASE,
        source=f"Canonne, Kamath, Steinke 2020; Sommer, Meiser, Mohammadi 2019, Lemma 5, for {how}",
        discrete=DISCRETE,
        epsilon=epsilon,
    )


def _continuous(groups: Sequence[tuple[float, int]], delta: float) -> float:
    """Return an ε for cells of several scales (σ, cells), from continuous noise; ∞ where that says nothing.

    Proof: docs/explanation/proofs-noise.md, "Discrete noise as rounded continuous noise".
    """
    mu, tau = 0.0, 0.0
    for sigma, cells in groups:
        if math.isinf(sigma):
            continue
        squared = sigma * sigma * cells
        rounding = 2 + _WIDENED * squared
        if not rounding < squared:
            return math.inf
        tau += _log_difference(sigma, cells) + 10 * math.exp(-2 * math.pi**2 * rounding)
        mu = math.hypot(mu, cells / math.sqrt(squared - rounding))
    if not tau < 1:
        return math.inf
    return independent.gaussian_dp(mu * (1 + 16 * _EPS), delta * math.exp(-tau)) + 2 * tau


@dataclass(frozen=True)
class _Losses:
    """Upper bounds on Pr[Y = y]/δ for y = `lowest`, `lowest` + 1, …, and on what lies beyond; loss (N/2 + Y)/σ²."""

    weights: Array
    lowest: int
    sigma: float
    cells: int
    beyond: float = math.exp(-_CUT)

    def least_epsilon(self) -> float:
        """The least ε with δ(ε) ≤ δ, rounded up; that of the lowest y where ε is not above it.

        With ε = (N/2 + y₀)/σ², δ(ε) = Σ Pr[y]·(1 − e^{−(y − y₀)/σ²}) over y > y₀. It falls through δ between two
        integers, k − 1 and k. At y₀ = k − s it is A − (A − D)e^{−s/σ²}, A = Pr[Y ≥ k] and D = δ at k.
        """
        if self._spent(0) <= 1:
            return self._epsilon(0, 0.0)
        last = len(self.weights) - 1
        k = bisect(lambda at: self._spent(at) <= 1, last, 0, halve=lambda one, other: (one + other) // 2)
        above = float(np.sum(self.weights[k:])) * (1 + _ROUNDING) + self.beyond
        part = math.log1p((1 - self._spent(k)) / (above - 1)) * self.sigma * self.sigma
        return self._epsilon(k, min(part, 1.0))

    def _spent(self, at: int) -> float:
        """δ(ε)/δ at y₀ = lowest + at."""
        above = self.weights[at + 1 :]
        with np.errstate(under="ignore"):
            gains = -np.expm1(-np.arange(1, len(above) + 1) / (self.sigma * self.sigma))
        return float(above @ gains) * (1 + _ROUNDING) + self.beyond

    def _epsilon(self, at: int, part: float) -> float:
        place = self.cells / 2 + self.lowest + at - part
        slack = 16 * _EPS * (self.cells + abs(self.lowest) + at + 1)
        return max(0.0, (place + slack) / (self.sigma * self.sigma))


def _one(sigma: float, cells: int, delta: float) -> _Losses:
    """Y as one discrete Gaussian, from one scale below where continuous noise has its least ε."""
    mu, scale = math.sqrt(cells) / sigma, sigma * math.sqrt(cells)
    t = independent.gaussian_dp(mu, delta) / mu - mu / 2
    lowest = max(math.floor((t - 1) * scale) - 3, _first(cells))
    y = np.arange(lowest, _last(scale, delta) + 1)
    log_weights = -((y / scale) ** 2) / 2 - math.log(scale * math.sqrt(2 * math.pi)) - math.log(delta)
    return _Losses(_weights(log_weights), lowest, sigma, cells)


def _convolved(sigma: float, cells: int, delta: float) -> _Losses | None:
    """Return Y by a Fourier transform of draws that are tilted to where δ is decided; None where that is out of reach.

    Proof: docs/explanation/proofs-noise.md, "Sums of discrete Gaussians by a Fourier transform".
    """
    if sigma < _LEAST:
        return None
    c = _tilt(sigma, math.log(1 / delta) / cells)
    z, p, log_sum = _tilted(sigma, c)
    mean = float(p @ z)
    spread = math.sqrt(cells * float(p @ (z - mean) ** 2))
    lowest = max(math.floor(cells * mean - 12 * spread) - 4, _first(cells))
    last = max(_last(sigma * math.sqrt(cells), delta), lowest + 1)
    wide = last - lowest + 24 * spread + 64
    if wide > _POINTS:
        return None
    q, error = _power(p, cells, 1 << math.ceil(math.log2(wide)))
    y = np.arange(lowest, last + 1)
    near = q[(y - cells * int(z[0])) % len(q)] + error + cells * math.exp(-71)
    exponent = float(np.max((z - c) ** 2)) / (2 * sigma * sigma)
    slack = cells * _EPS * (32 + 4 * exponent + 4 * c * c / sigma / sigma)
    constant = cells * (log_sum - _tilted(sigma, 0.0)[2]) - math.log(delta) + slack
    return _Losses(_weights(np.log(near) - c / sigma / sigma * (y - cells * c / 2) + constant), lowest, sigma, cells)


def _power(p: Array, number: int, size: int) -> tuple[Array, float]:
    """The law of the sum of `number` draws, modulo `size`, and what each probability may be wrong by at most.

    The spectrum is added up term by term: its error is that of so many products and sums of numbers up to 1. A power of
    it is wrong by N such errors and those of the power itself; the inverse transform by log₂(size) roundings in 2-norm
    (Higham 2002, Theorem 24.2).
    """
    turn = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    spectrum = np.zeros(len(turn), dtype=np.complex128)
    for each in p[::-1]:
        spectrum *= turn
        spectrum += each
    once = 16 * len(p) * _EPS
    with np.errstate(under="ignore"):
        steep = np.minimum(np.abs(spectrum) + once, 1 + once) ** (number - 1)
        q = np.maximum(np.fft.irfft(spectrum**number, size), 0.0)
    of_spectrum = number * (once + 16 * _EPS) * 2 * float(np.sum(steep)) / size
    of_inverse = 16 * _EPS * math.log2(size) * float(np.linalg.norm(q))
    return q, 2 * (of_spectrum + of_inverse)


def _tilted(sigma: float, centre: float) -> tuple[Array, Array, float]:
    """Integers z around the centre c, with probabilities in proportion to exp(−(z − c)²/2σ²), and ln of these' sum."""
    reach = math.ceil(_REACH * sigma) + 2
    z = np.arange(math.floor(centre) - reach, math.floor(centre) + reach + 2, dtype=np.float64)
    exponents = -((z - centre) ** 2) / (2 * sigma * sigma)
    top = float(exponents.max())
    weights = np.exp(exponents - top)
    return z, weights / weights.sum(), top + math.log(float(weights.sum()))


def _tilt(sigma: float, rate: float) -> float:
    """The centre c at which Chernoff's bound on the mean of the draws is e^{−N·rate} (any centre would be right)."""
    log_sum = _tilted(sigma, 0.0)[2]

    def passes(c: float) -> bool:
        z, p, tilted = _tilted(sigma, c)
        return c * (float(p @ z) - c / 2) / sigma / sigma - (tilted - log_sum) >= rate

    return bisect(passes, sigma * math.sqrt(2 * rate) + 1, 0.0, halve=arithmetic, near=1e-6)


def _weights(log_weights: Array) -> Array:
    """Weights, rounded up; those near the largest double stand for all above."""
    with np.errstate(under="ignore"):
        result: Array = np.exp(np.minimum(log_weights, 700.0)) * (1 + _ROUNDING) + 1e-300
    return result


def _first(cells: int) -> int:
    """The least y that matters: there ε is not above 0."""
    return -(cells // 2) - 1


def _last(scale: float, delta: float) -> int:
    """A y beyond which δ has only a part of e⁻⁴⁵."""
    return math.ceil(scale * math.sqrt(2 * (math.log(1 / delta) + _CUT)))


def _log_difference(sigma: float, cells: int) -> float:
    """τ, by how much ln Pr of a sum of so many draws may differ from that of one discrete Gaussian."""
    turns = math.pi * sigma
    return 10 * (cells - 1) * math.exp(-turns * turns) if sigma >= 0.5 or cells == 1 else math.inf


def _concentrated(mu: float, delta: float) -> float:
    """ε of a Rényi curve αμ²/2."""
    if math.isinf(mu * mu):
        return math.inf
    curve = np.maximum(conversion.ORDERS * (mu * mu / 2), LEAST)
    return float(np.min(conversion.convert(Conversion.TIGHT, conversion.ORDERS, curve, delta)))


#: The theorem needs shares of at least this scale; with smaller ones there is no bound.
LEAST_SHARE = 0.5


def share_difference(share: float, shares: int) -> float:
    """τ of `shares` discrete Gaussians of scale `share` each; ∞ below the least scale."""
    if share < LEAST_SHARE:
        return math.inf
    share = min(share, 1e150)  # whose square is a number, and at which τ is 0 as well
    k = np.arange(1, shares)
    return float(10 * np.exp(-2 * math.pi**2 * share**2 * k / (k + 1)).sum())


def shared_counts_epsilon(sigma: float, shares: int, queries: int, delta: float) -> float:
    """ε of revealing all counts of T queries, the noise of each the sum of so many shares.

    Two counts move by one each per query; of a table with few votes of each teacher, T is their number m. The noise of
    2T counts has together the probabilities of as many discrete Gaussians of scale σ but for a factor within e^{±2Tτ}.
    Where P ≤ e^x P° and Q ≥ e^{−x} Q°, δ(ε) ≤ e^x δ°(ε − 2x). Or ε of the curve below, where that is less.
    """
    curve = queries * shared_counts(sigma, shares, conversion.ORDERS)
    limit = float(np.min(conversion.convert(Conversion.TIGHT, conversion.ORDERS, curve, delta)))
    if sigma == 0 or (tau := 2 * queries * share_difference(sigma / math.sqrt(shares), shares)) > 1:
        return limit
    return min(limit, epsilon(sigma, 2 * queries, delta * math.exp(-tau)) + 2 * tau)


def shared_counts(sigma: float, shares: int, orders: ArrayLike) -> Array:
    """Rényi curve per query of revealing all counts, with `shares` shares of noise of variance σ²/shares each.

    A vote moves two counts by one each: Δ = √2 and d = 2. Concentrated privacy ½ε² is Rényi divergence αε²/2.
    """
    orders = np.asarray(orders, dtype=np.float64)
    if sigma == 0:
        return np.full_like(orders, np.inf)
    epsilon = math.sqrt(2) * (1 / sigma + share_difference(sigma / math.sqrt(shares), shares))
    result: Array = orders * epsilon**2 / 2
    return result
