"""Randomness for releases: the operating system's entropy, and noise on the integers by exact samplers.

The lowest bits of floating-point Laplace noise leak the value it was added to (Mironov 2012, *On significance of the
least significant bits for differential privacy*). Here noise is integer: the discrete Laplace and Gaussian
distributions, sampled exactly by OpenDP (Canonne, Kamath, Steinke 2020, *The discrete Gaussian for differential
privacy*, section 5). Draws from the operating system's entropy cannot be reproduced.
"""

import math
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from patebench.core import seeds
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Mode, Source

Integers = NDArray[np.int64]
Size = int | tuple[int, ...]

#: Largest scale of noise, in votes: noise exceeds 2⁶², near the range of 64 bits, with probability below exp(−2²²).
LARGEST_SCALE = 2.0**40

#: Discrete Gaussian noise of a smaller scale is 0: any other value has a probability below the smallest float.
_NO_NOISE = 1e-100

#: Largest scale of seeded discrete noise, whose distribution is stored as a table of 18 numbers per unit of scale.
_LARGEST_TABLE = 2.0**22


class Entropy:
    """Random source based on the operating system's entropy; mechanisms use it like a NumPy generator.

    Every noise scale is rounded up by one unit in the last place. Rounding errors of the caller therefore never make
    the noise smaller than the accountant assumes.
    """

    def laplace(self, *, scale: float, size: Size) -> Integers:
        """Draw integers x of shape `size` with Pr[x] ∝ exp(−|x|/`scale`)."""
        from opendp.measurements import make_laplace
        from opendp.metrics import l1_distance

        return _draw_with_opendp(lambda domain: make_laplace(domain, l1_distance(T="i64"), _rounded_up(scale)), size)

    def normal(self, *, scale: float, size: Size) -> Integers:
        """Draw integers x of shape `size` with Pr[x] ∝ exp(−x²/(2·`scale`²)): the discrete Gaussian.

        The variance of x is at most `scale`².
        """
        from opendp.measurements import make_gaussian
        from opendp.metrics import l2_distance

        return _draw_with_opendp(lambda domain: make_gaussian(domain, l2_distance(T="f64"), _rounded_up(scale)), size)

    def exponential(self, *, scale: float, size: Size) -> Integers:
        """Draw integers x ≥ 0 of shape `size` with Pr[x ≥ k] = exp(−k/`scale`).

        This is discrete Laplace noise conditioned on x ≥ 0.
        """
        wanted = int(np.prod(size))
        samples = np.empty(0, dtype=np.int64)
        while len(samples) < wanted:
            drawn = self.laplace(scale=scale, size=2 * (wanted - len(samples)) + 16)
            samples = np.concatenate([samples, drawn[drawn >= 0]])
        return samples[:wanted].reshape(size)

    def random(self, size: Size) -> NDArray[np.float64]:
        """Draw numbers of shape `size` uniformly from the multiples of 2⁻⁵³ in [0, 1)."""
        return (_words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, low: int, high: int, *, size: Size) -> Integers:
        """Draw integers of shape `size` from `low` … `high` − 1, with equal probabilities, by rejection sampling."""
        span = high - low
        if not 1 <= span <= 2**63:
            raise PatebenchError(
                f"cannot draw integers from {low} to {high - 1}; give a range that contains 1 to 2^63 integers"
            )
        words, last = _words(size), np.uint64(2**64 // span * span - 1)
        while np.any(beyond := words > last):
            words[beyond] = _words(int(beyond.sum()))
        return (words % np.uint64(span)).astype(np.int64) + low

    def spawn(self, n_children: int) -> list[Self]:
        """Return `n_children` independent sources, like the method of a NumPy generator.

        All sources are this object itself, because all draws from it are independent.
        """
        return [self] * n_children


class Rehearsal(Entropy):
    """Source of extreme constants instead of noise, to check all noise scales of a mechanism before it draws noise.

    An invalid scale raises the same error as in `Entropy`. The constants are:

    - Laplace and normal noise: 2⁴⁰ if `most` is True, −2⁴⁰ if `most` is False;
    - uniform numbers from [0, 1): 0 if `most` is True, 1 − 2⁻⁵³ if `most` is False;
    - exponential noise: 2⁴⁰ for both values of `most`;
    - integers from a range: the smallest integer of the range for both values of `most`.

    Run the mechanism with both values of `most`, because earlier noise may decide which noise is drawn later.
    """

    def __init__(self, most: bool) -> None:
        self._value = int(LARGEST_SCALE) if most else -int(LARGEST_SCALE)
        self._chance = 0.0 if most else 1 - 2.0**-53

    def laplace(self, *, scale: float, size: Size) -> Integers:
        _rounded_up(scale)
        return np.full(size, self._value, dtype=np.int64)

    def normal(self, *, scale: float, size: Size) -> Integers:
        return self.laplace(scale=scale, size=size)

    def exponential(self, *, scale: float, size: Size) -> Integers:
        return abs(self.laplace(scale=scale, size=size))

    def random(self, size: Size) -> NDArray[np.float64]:
        return np.full(size, self._chance)

    def integers(self, low: int, high: int, *, size: Size) -> Integers:
        return np.full(size, low, dtype=np.int64)


def discrete_normal(source: Source, scale: float, size: Size) -> Integers:
    """Draw integers x of shape `size` with Pr[x] ∝ exp(−x²/(2·`scale`²)), the discrete Gaussian, from `source`.

    If `source` is `Entropy`, as in releases, the distribution is exact. If `source` is a generator with a seed, as in
    experiments, the probabilities Pr[x ≤ k] have rounding errors of up to 1e-11.
    """
    if isinstance(source, Entropy):
        return source.normal(scale=scale, size=size)
    if scale < _NO_NOISE:
        return np.zeros(size, dtype=np.int64)
    if not scale <= _LARGEST_TABLE:
        raise PatebenchError(f"seeded discrete noise of scale {scale:g} cannot be drawn; use a scale up to 2^22")
    return np.searchsorted(_distribution(scale), source.random(size), side="right") - math.ceil(9 * scale)


@lru_cache(maxsize=8)  # teachers share a scale
def _distribution(scale: float) -> NDArray[np.float64]:
    """Return Pr[X ≤ x] of discrete Gaussian noise X for the integers x = −m … m, as an array (2m + 1,).

    The noise is truncated to |X| ≤ m, where m is 9 · `scale`, rounded up.
    """
    x = np.arange(-math.ceil(9 * scale), math.ceil(9 * scale) + 1)
    below = np.cumsum(np.exp(-(x**2) / (2 * scale**2)))
    return below / below[-1]


def uniform_words(source: Source, size: Size) -> NDArray[np.uint64]:
    """Draw uniform 64-bit integers of shape `size` from a seeded generator or from the operating system's entropy."""
    if isinstance(source, np.random.Generator):
        return source.integers(0, 2**64, size=size, dtype=np.uint64)
    return _words(size)


@dataclass(frozen=True)
class Draws:
    """Source of a stage's noise: a generator for experiments, or the operating system's entropy for releases.

    The generator is derived from `seed` and from the name `stream` of a random stream. For a release, both are None.
    """

    seed: int | None = None
    stream: str | None = None

    @classmethod
    def of(cls, release: bool, seed: int | None, stream: str | None) -> "Draws":
        """Return the source for a command's options: either `seed` and `stream`, or `release`.

        Raises PatebenchError for any other combination of these options.
        """
        if release and (seed is not None or stream is not None):
            raise PatebenchError(
                "the noise of --release comes from the operating system, not from a seed; leave out --seed and --stream"
            )
        if not release and (seed is None or stream is None):
            raise PatebenchError(
                "the source of the noise is missing; give --seed and --stream for reproducible noise, or --release for"
                " a private release"
            )
        return cls(seed, stream)

    @property
    def mode(self) -> Mode:
        return Mode.RELEASE if self.seed is None else Mode.SEEDED

    def source(self, *names: str | int) -> Source:
        """Return the random source for the purpose `names`, such as "masks"; each purpose has an independent source."""
        return Entropy() if self.seed is None else seeds.generator(self.seed, str(self.stream), *names)


def _words(size: Size) -> NDArray[np.uint64]:
    count = int(np.prod(size))
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64).copy().reshape(size)


def _rounded_up(scale: float) -> float:
    if not 0 <= scale <= LARGEST_SCALE:
        raise PatebenchError(f"noise of scale {scale:g} cannot be drawn exactly; use a scale from 0 to 2^40")
    return math.nextafter(scale, math.inf) if scale > 0 else 0.0


def _draw_with_opendp(make_measurement: Any, size: Size) -> Integers:
    """Draw integer noise of shape `size` with OpenDP.

    `make_measurement` is a function that returns a noise mechanism of OpenDP. Its argument is the mechanism's input
    domain: vectors of 64-bit integers.
    """
    from opendp.domains import atom_domain, vector_domain
    from opendp.mod import enable_features

    enable_features("contrib")
    draw = make_measurement(vector_domain(atom_domain(T="i64")))
    count = int(np.prod(size))
    return np.asarray(draw([0] * count), dtype=np.int64).reshape(size)
