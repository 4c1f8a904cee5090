"""Exact outcome probabilities of a noisy argmax with integer noise, as sums in log space.

Class j wins with probability Σ_x p(x − c_j) Π_{k<j} F(x − 1 − c_k) Π_{k>j} F(x − c_k): of tied scores the lowest class
wins, and with integer noise scores do tie.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array, logsumexp
from patebench.accounting.votes import Counts

#: Noise this many scales out has probabilities below e⁻⁷⁰⁰, about what a double holds.
_REACH = 38.0
_CELLS = 1 << 21


@dataclass(frozen=True)
class IntegerNoise:
    """ln of the probabilities and of the distribution function at −reach … reach, beyond which nothing happens."""

    log_p: Array
    log_cdf: Array

    @classmethod
    def of(cls, log_weights: Array) -> "IntegerNoise":
        """From ln of weights at −reach … reach."""
        log_p = log_weights - np.logaddexp.reduce(log_weights)
        return cls(log_p, np.minimum(np.logaddexp.accumulate(log_p), 0.0))

    @property
    def reach(self) -> int:
        return len(self.log_p) // 2

    def log_probability(self, x: NDArray[np.integer]) -> Array:
        inside = np.abs(x) <= self.reach
        return np.where(inside, self.log_p[np.clip(x + self.reach, 0, 2 * self.reach)], -np.inf)

    def log_distribution(self, x: NDArray[np.integer]) -> Array:
        inside = self.log_cdf[np.clip(x + self.reach, 0, 2 * self.reach)]
        return np.where(x < -self.reach, -np.inf, np.where(x > self.reach, 0.0, inside))


def log_sum_of_normals(scale: float, number: int) -> IntegerNoise:
    """The sum of `number` discrete Gaussians of the given scale each, by convolution.

    All terms are positive, so sums of products lose nothing, however small: relative errors stay at rounding.
    """
    if scale == 0:
        return IntegerNoise.of(np.zeros(1))
    reach = math.ceil(_REACH * scale)
    x = np.arange(-reach, reach + 1)
    power, total = np.exp(-(x**2) / (2 * scale**2)), np.ones(1)
    widest = math.ceil(_REACH * scale * math.sqrt(number))
    while number:
        if number & 1:
            total = _convolved(total, power, widest)
        number >>= 1
        power = _convolved(power, power, widest) if number else power
    with np.errstate(divide="ignore"):
        return IntegerNoise.of(np.log(total))


def _convolved(a: Array, b: Array, reach: int) -> Array:
    whole = np.convolve(a / a.sum(), b / b.sum())
    cut = max(0, len(whole) // 2 - reach)
    return whole[cut : len(whole) - cut]


def log_argmax_probabilities(counts: Counts, noise: IntegerNoise) -> Array:
    """ln of the probability that each class wins, queries × classes, of argmax(counts + noise)."""
    rows, inverse = np.unique(counts, axis=0, return_inverse=True)
    width = int((rows.max() - rows.min()) + 2 * noise.reach + 1)
    block = max(1, _CELLS // width)
    parts = [_block(rows[start : start + block], noise) for start in range(0, len(rows), block)]
    result: Array = np.concatenate(parts)[inverse.reshape(-1)]
    return result


def _block(counts: Counts, noise: IntegerNoise) -> Array:
    """Where the largest score lies: from the largest count's lowest score to its highest."""
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
