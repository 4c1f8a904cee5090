"""Noise that mechanisms add to counts: sampling, and probabilities in log space.

There are three kinds: continuous noise (`Noise`), integer noise given by its probabilities (`IntegerNoise`), and
integer noise that mechanisms draw (`LatticeNoise`).

In experiments, noise is drawn from a seed. In private releases, noise is drawn from the operating system and must be an
integer. If the privacy cost of a mechanism is proved only for integer noise, experiments draw integers, too.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from patebench.accounting import rdp
from patebench.accounting.logspace import Array, logsumexp
from patebench.accounting.votes import Counts
from patebench.core.blocks import blocks
from patebench.core.entropy import Entropy, discrete_normal
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source

#: Theorems by which a bound for continuous noise also holds for discrete noise of the same scale, added to integers.
LAPLACE = "discrete noise: Ghosh, Roughgarden, Sundararajan 2012 (geometric mechanism)"
GAUSSIAN = "discrete noise: Canonne, Kamath, Steinke 2020, Theorem 4 (concentrated privacy)"


#: Number of intervals into which `Noise.one_count` divides the values between 0 and `size`.
_CUTS = 32


@dataclass(frozen=True)
class Noise(ABC):
    """Symmetric continuous noise of the given `scale`, from 0 (no noise) to ∞ (the counts have no influence).

    `log_density`, `log_distribution` and `steepest` are for scale 1, so callers divide numbers by `scale` first.
    """

    scale: float

    @property
    @abstractmethod
    def variance(self) -> float:
        """Return the variance of one draw."""

    @abstractmethod
    def draw(self, shape: tuple[int, ...], rng: Source) -> Array:
        """Draw an array of independent noise, of this `shape`."""

    @abstractmethod
    def log_density(self, x: Array) -> Array:
        """Return ln of the density at x, for scale 1."""

    @abstractmethod
    def log_distribution(self, x: Array) -> Array:
        """Return ln Pr[noise ≤ x], for scale 1."""

    @abstractmethod
    def steepest(self, distance: Array) -> Array:
        """Return an upper bound on the derivative of `log_distribution` at all x ≥ −`distance`."""

    @property
    def is_none(self) -> bool:
        return self.scale == 0

    def one_count(self, size: float) -> tuple[Array, Array]:
        """Return ln Pr[noisy count in interval] as two arrays (intervals,): for a true count of 0 and for `size`.

        From these two arrays, audits compute a lower bound on the ε of a noisy count that changes by `size`. The
        intervals cover all numbers. They are narrow between 0 and `size`, where the privacy loss may vary.
        """
        cuts = np.linspace(0, size, _CUTS + 1) / self.scale

        def log_masses(centre: float) -> Array:
            below = np.exp(self.log_distribution(cuts - centre))
            above = float(np.exp(self.log_distribution(centre - cuts[-1:]))[0])
            return np.log(np.diff(np.concatenate([[0.0], below, [below[-1] + above]])))

        return log_masses(0.0), log_masses(size / self.scale)

    def groups(self, number: int) -> tuple[Array, Array]:
        """Divide the values of the noise into `number` about equally likely ranges.

        Return the `number` − 1 edges between the ranges, and the probability of each range.
        """
        x, shares = np.linspace(-8, 8, 4001), np.arange(1, number) / number
        edges = x[np.searchsorted(np.exp(self.log_distribution(x)), shares)] * self.scale
        below = np.exp(self.log_distribution(edges / self.scale)) if self.scale else shares
        return edges, np.diff(np.concatenate([[0.0], below, [1.0]]))


@dataclass(frozen=True)
class Laplace(Noise):
    """Laplace noise: density exp(−|x|)/2 at scale 1."""

    @property
    def variance(self) -> float:
        return 2 * self.scale**2

    def draw(self, shape: tuple[int, ...], rng: Source) -> Array:
        return rng.laplace(scale=self.scale, size=shape)

    def log_density(self, x: Array) -> Array:
        return -np.abs(x) - math.log(2)

    def log_distribution(self, x: Array) -> Array:
        tail = -np.abs(x) - math.log(2)
        return np.where(x < 0, tail, np.log1p(-np.exp(tail)))

    def steepest(self, distance: Array) -> Array:
        return np.ones_like(distance)


@dataclass(frozen=True)
class Gaussian(Noise):
    """Gaussian noise: density exp(−x²/2)/√(2π) at scale 1."""

    @property
    def variance(self) -> float:
        return self.scale**2

    def draw(self, shape: tuple[int, ...], rng: Source) -> Array:
        return rng.normal(scale=self.scale, size=shape)

    def log_density(self, x: Array) -> Array:
        return -0.5 * x * x - 0.5 * math.log(2 * math.pi)

    def log_distribution(self, x: Array) -> Array:
        return log_ndtr(x)

    def steepest(self, distance: Array) -> Array:
        return distance + 1


#: Scales beyond which Gaussian noise has probabilities below e⁻⁷⁰⁰, about the smallest double.
_REACH = 38.0
#: Numbers in one block of queries, which bounds memory.
_CELLS = 1 << 21


@dataclass(frozen=True)
class IntegerNoise:
    """Noise on the integers z from −reach to reach, as two arrays: ln Pr[noise = z] and ln Pr[noise ≤ z]."""

    log_p: Array
    log_cdf: Array

    @classmethod
    def of(cls, log_weights: Array) -> "IntegerNoise":
        """Create noise from `log_weights`, the logarithms of unnormalised probabilities at −reach … reach."""
        log_p = log_weights - np.logaddexp.reduce(log_weights)
        return cls(log_p, np.minimum(np.logaddexp.accumulate(log_p), 0.0))

    @property
    def reach(self) -> int:
        return len(self.log_p) // 2

    @property
    def is_none(self) -> bool:
        return self.reach == 0

    def one_count(self, size: int) -> tuple[Array, Array]:
        """Return two arrays of ln Pr[noisy count = x], for a true count of 0 and for a true count of `size`.

        Both arrays have one entry for each x that is possible with at least one of the two true counts.
        """
        x = np.arange(-self.reach, self.reach + size + 1)
        return self.log_probability(x), self.log_probability(x - size)

    def groups(self, number: int) -> tuple[Array, Array]:
        """Divide the values of the noise into at most `number` about equally likely ranges.

        Return the edges between the ranges (half-integers) and the probability of each range.
        """
        shares = np.arange(1, number) / number
        values = np.unique(np.searchsorted(np.exp(self.log_cdf), shares)) - self.reach
        below, edges = np.exp(self.log_distribution(values)), np.asarray(values + 0.5, dtype=np.float64)
        return edges, np.diff(np.concatenate([[0.0], below, [1.0]]))

    def log_probability(self, x: NDArray[np.integer]) -> Array:
        inside = np.abs(x) <= self.reach
        return np.where(inside, self.log_p[np.clip(x + self.reach, 0, 2 * self.reach)], -np.inf)

    def log_distribution(self, x: NDArray[np.integer]) -> Array:
        inside = self.log_cdf[np.clip(x + self.reach, 0, 2 * self.reach)]
        return np.where(x < -self.reach, -np.inf, np.where(x > self.reach, 0.0, inside))


def log_sum_of_normals(scale: float, number: int) -> IntegerNoise:
    """Return the distribution of the sum of `number` independent discrete Gaussians of scale `scale` each.

    The probabilities are computed by convolution. All terms are positive, so even tiny probabilities have a small
    relative error.
    """
    if scale == 0:
        return IntegerNoise.of(np.zeros(1))
    reach = math.ceil(_REACH * scale)
    x = np.arange(-reach, reach + 1)
    power, total = np.exp(-(x**2) / (2 * scale**2)), np.ones(1)
    widest = math.ceil(_REACH * scale * math.sqrt(number))
    while number:
        if number & 1:
            total = _convolve(total, power, widest)
        number >>= 1
        power = _convolve(power, power, widest) if number else power
    with np.errstate(divide="ignore"):
        return IntegerNoise.of(np.log(total))


def _convolve(a: Array, b: Array, reach: int) -> Array:
    full = np.convolve(a / a.sum(), b / b.sum())
    cut = max(0, len(full) // 2 - reach)
    return full[cut : len(full) - cut]


def log_integer_argmax_probabilities(counts: Counts, noise: IntegerNoise) -> Array:
    """Return ln of the probability that each class is argmax(counts + noise), (queries × classes).

    Class j wins with probability Σ_x p(x − c_j) Π_{k<j} F(x − 1 − c_k) Π_{k>j} F(x − c_k), with counts c and the
    probability p and distribution function F of the noise. Ties go to the lowest class.
    """
    rows, inverse = np.unique(counts, axis=0, return_inverse=True)
    width = int((rows.max() - rows.min()) + 2 * noise.reach + 1)
    parts = [_solve_integer_block(rows[block], noise) for block in blocks(len(rows), _CELLS // width)]
    return np.concatenate(parts)[inverse.reshape(-1)]


def _solve_integer_block(counts: Counts, noise: IntegerNoise) -> Array:
    top = counts.max(axis=1, keepdims=True)
    x = top - noise.reach + np.arange(2 * noise.reach + 1)
    lower = [noise.log_distribution(x - 1 - count[:, None]) for count in counts.T]
    upper = [noise.log_distribution(x - count[:, None]) for count in counts.T]
    result = np.empty(counts.shape)
    before, after = np.zeros_like(x, dtype=np.float64), np.cumsum(upper[::-1], axis=0)[::-1]
    for j, count in enumerate(counts.T):
        above = after[j + 1] if j + 1 < len(upper) else 0.0
        result[:, j] = logsumexp(noise.log_probability(x - count[:, None]) + before + above, axis=1)
        before = before + lower[j]
    return np.minimum(result, 0.0)


Integers = NDArray[np.int64]

#: −ln of the probability below which tails change no sum of this module.
_CERTAIN = 200.0


@dataclass(frozen=True)
class LatticeNoise(ABC):
    """Integer noise with Pr[z] ∝ exp(`log_weights(z)`), symmetric about 0 and decreasing in |z|."""

    scale: float

    @abstractmethod
    def draw(self, shape: tuple[int, ...], rng: Source) -> Integers:
        """Draw an array of independent noise of this `shape` from `rng`.

        If `rng` is `Entropy`, as in releases, the distribution of the draws is exact. If `rng` is a generator with a
        seed, as in experiments, this distribution has rounding errors.
        """

    @abstractmethod
    def log_weights(self, z: NDArray[np.integer]) -> Array:
        """Return ln Pr[z] up to a constant."""

    @abstractmethod
    def reach(self, exponent: float) -> int:
        """Return a distance d with Pr[z ≥ d] ≤ exp(−`exponent`)."""

    @abstractmethod
    def divergence(self, orders: Array) -> Array:
        """Return upper bounds (orders,) on the Rényi divergence of all noisy counts together, if one vote moves.

        The bounds are also valid for the label, which is computed from the noisy counts.
        """

    def log_normaliser(self) -> float:
        """Return ln Σ_z exp(`log_weights(z)`), so that ln Pr[z] = `log_weights(z)` minus this value."""
        far = self.reach(_CERTAIN)
        return float(np.logaddexp.reduce(self.log_weights(np.arange(-far, far + 1))))

    def probabilities(self, teachers: int) -> IntegerNoise:
        """Return the distribution of the noise on a finite range.

        The range is so wide that, for counts of `teachers` teachers, truncation changes no computed probability of a
        label.
        """
        far = teachers + self.reach(_CERTAIN)
        return IntegerNoise.of(self.log_weights(np.arange(-far, far + 1)))


@dataclass(frozen=True)
class DiscreteGaussian(LatticeNoise):
    """Discrete Gaussian noise: Pr[z] ∝ exp(−z²/(2·scale²)) (Canonne, Kamath, Steinke 2020)."""

    def draw(self, shape: tuple[int, ...], rng: Source) -> Integers:
        return discrete_normal(rng, self.scale, shape)

    def log_weights(self, z: NDArray[np.integer]) -> Array:
        scaled: Array = z / self.scale
        return -scaled * scaled / 2

    def reach(self, exponent: float) -> int:
        """Return a distance d with Pr[z ≥ d] ≤ exp(−`exponent`), by Chernoff's bound.

        Chernoff's bound needs E exp(tz) ≤ exp(t²·scale²/2). To prove this, let g(s) = Σ_z exp(−(z − s)²/(2·scale²)),
        and note that E exp(tz) = exp(t²·scale²/2)·g(t·scale²)/g(0). By Poisson's summation formula, g is a sum of
        cosines with positive weights, so it is largest at 0.
        """
        return math.ceil(math.sqrt(2 * exponent) * self.scale) + 1

    def divergence(self, orders: Array) -> Array:
        """Return α/scale² per order α, a bound on the Rényi divergence of noisy counts if two change by one each.

        Theorem: Canonne, Kamath, Steinke 2020, Theorem 4.
        """
        return rdp.gaussian(self.scale, orders)


#: Largest scale of discrete Laplace noise that is drawn; beyond, draws might not fit into 64-bit integers.
_MOST_LAPLACE = 2.0**40


@dataclass(frozen=True)
class DiscreteLaplace(LatticeNoise):
    """Discrete Laplace noise: Pr[z] ∝ exp(−|z|/scale) (Ghosh, Roughgarden, Sundararajan 2012)."""

    def draw(self, shape: tuple[int, ...], rng: Source) -> Integers:
        if isinstance(rng, Entropy):
            return rng.laplace(scale=self.scale, size=shape)
        # Rounded down, exponential variables are geometric, and the difference of two of these is discrete Laplace.
        if self.scale > _MOST_LAPLACE:
            raise PatebenchError(f"discrete Laplace noise of scale {self.scale:g} is too large; use at most 2⁴⁰")
        one, other = (np.floor(rng.exponential(scale=self.scale, size=shape)) for _ in range(2))
        return np.asarray(one - other, dtype=np.int64)

    def log_weights(self, z: NDArray[np.integer]) -> Array:
        return -np.abs(z) / self.scale

    def reach(self, exponent: float) -> int:
        return math.ceil(exponent * self.scale) + 1

    def divergence(self, orders: Array) -> Array:
        """Return a Rényi bound on noisy counts, which are 2/scale-DP because two of them change by one each."""
        return rdp.laplace(1 / self.scale, orders)
