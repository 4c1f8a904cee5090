"""Noise on the integers, as releases add it: the discrete Gaussian and Laplace distributions.

A mechanism whose cost is worked out for integer noise draws integers in seeded mode too, so that one proof holds for
both modes.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import rdp
from patebench.accounting.logspace import Array
from patebench.core.entropy import Entropy, discrete_normal
from patebench.core.seeds import Source
from patebench.mechanisms.integer_noise import IntegerNoise

Integers = NDArray[np.int64]

#: What is rarer than e⁻²⁰⁰ changes no sum of probabilities that are worked out here.
_CERTAIN = 200.0


@dataclass(frozen=True)
class LatticeNoise(ABC):
    """Independent integers, Pr[z] ∝ exp(`log_weights(z)`), symmetric about 0 and falling on both sides."""

    scale: float

    @abstractmethod
    def draw(self, shape: tuple[int, ...], rng: Source) -> Integers:
        """Independent draws; exact from the operating system's entropy, to be repeated from a seed."""

    @abstractmethod
    def log_weights(self, z: NDArray[np.integer]) -> Array:
        """ln Pr[z] but for a constant."""

    @abstractmethod
    def reach(self, exponent: float) -> int:
        """A distance with Pr[z ≥ reach] ≤ exp(−exponent)."""

    @abstractmethod
    def divergence(self, orders: Array) -> Array:
        """D_α of all noisy counts when one vote moves: the most that a label can cost, whatever the votes are."""

    def log_normaliser(self) -> float:
        """ln of the sum of all weights."""
        far = self.reach(_CERTAIN)
        return float(np.logaddexp.reduce(self.log_weights(np.arange(-far, far + 1))))

    def probabilities(self, teachers: int) -> IntegerNoise:
        """For exact label probabilities: as far as counts of so many teachers can lie apart, and the tails beyond."""
        far = teachers + self.reach(_CERTAIN)
        return IntegerNoise.of(self.log_weights(np.arange(-far, far + 1)))


@dataclass(frozen=True)
class DiscreteGaussian(LatticeNoise):
    """Pr[z] ∝ exp(−z²/(2·scale²)) (Canonne, Kamath, Steinke 2020)."""

    def draw(self, shape: tuple[int, ...], rng: Source) -> Integers:
        return discrete_normal(rng, self.scale, shape)

    def log_weights(self, z: NDArray[np.integer]) -> Array:
        scaled: Array = z / self.scale
        return -scaled * scaled / 2

    def reach(self, exponent: float) -> int:
        """By Chernoff's bound: E exp(tz) ≤ exp(t²·scale²/2), as no shift makes Σ exp(−(z − s)²/(2·scale²)) larger.

        By Poisson's summation formula that sum is one of cosines in s with positive weights, so it is largest at s = 0.
        """
        return math.ceil(math.sqrt(2 * exponent) * self.scale) + 1

    def divergence(self, orders: Array) -> Array:
        """α/scale²: two counts change by one each (Canonne, Kamath, Steinke 2020, Theorem 4)."""
        return rdp.gaussian(self.scale, orders)


@dataclass(frozen=True)
class DiscreteLaplace(LatticeNoise):
    """Pr[z] ∝ exp(−|z|/scale) (Ghosh, Roughgarden, Sundararajan 2012)."""

    def draw(self, shape: tuple[int, ...], rng: Source) -> Integers:
        if isinstance(rng, Entropy):
            return rng.laplace(scale=self.scale, size=shape)
        one, other = (np.floor(self._one_sided(rng, shape)) for _ in range(2))
        return np.asarray(one - other, dtype=np.int64)

    def _one_sided(self, rng: Source, shape: tuple[int, ...]) -> NDArray[Any]:
        """Rounded down it is geometric, and the difference of two of these is discrete Laplace."""
        return rng.exponential(scale=self.scale, size=shape)

    def log_weights(self, z: NDArray[np.integer]) -> Array:
        result: Array = -np.abs(z) / self.scale
        return result

    def reach(self, exponent: float) -> int:
        return math.ceil(exponent * self.scale) + 1

    def divergence(self, orders: Array) -> Array:
        """That of 2/scale-DP: two counts change by one each, as with LNMax."""
        return rdp.laplace(1 / self.scale, orders)
