"""The noise that mechanisms add to counts: how to draw it, and its density and distribution in log space."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.core.seeds import Source

Array = NDArray[np.float64]

#: Why what holds for the continuous noise holds for the discrete one of the same scale, added to integers.
LAPLACE = "discrete noise: Ghosh, Roughgarden, Sundararajan 2012 (geometric mechanism)"
GAUSSIAN = "discrete noise: Canonne, Kamath, Steinke 2020, Theorem 4 (concentrated privacy)"


@dataclass(frozen=True)
class Noise(ABC):
    """Symmetric noise of the given scale; scale 0 means none, scale ∞ drowns everything.

    Density and distribution are those of the unit scale: mechanisms divide by the scale first.
    """

    scale: float

    @property
    @abstractmethod
    def variance(self) -> float:
        """Of one draw."""

    @abstractmethod
    def draw(self, shape: tuple[int, ...], rng: Source) -> Array:
        """Independent draws."""

    @abstractmethod
    def log_density(self, x: Array) -> Array:
        """ln of the density at x, for scale 1."""

    @abstractmethod
    def log_distribution(self, x: Array) -> Array:
        """ln Pr[noise ≤ x], for scale 1."""

    @abstractmethod
    def steepest(self, distance: Array) -> Array:
        """The most that `log_distribution` can rise by per unit, down to −distance."""


@dataclass(frozen=True)
class Laplace(Noise):
    """Density exp(−|x|)/2 at scale 1."""

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
    """Density exp(−x²/2)/√(2π) at scale 1."""

    @property
    def variance(self) -> float:
        return self.scale**2

    def draw(self, shape: tuple[int, ...], rng: Source) -> Array:
        return rng.normal(scale=self.scale, size=shape)

    def log_density(self, x: Array) -> Array:
        return -0.5 * x * x - 0.5 * math.log(2 * math.pi)

    def log_distribution(self, x: Array) -> Array:
        from scipy.special import log_ndtr

        result: Array = log_ndtr(x)
        return result

    def steepest(self, distance: Array) -> Array:
        return distance + 1
