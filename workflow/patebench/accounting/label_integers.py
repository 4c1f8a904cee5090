"""Compute the cells of `accounting.label` for noise on the integers, where ties go to the lowest class.

Of classes a and b that both beat the rest, a wins where Z_a + u ≥ Z_b + v + κ, κ in {0, 1}; the supremum is over
integers u, v and both κ. P_a(u, v; κ) = Σ_{x ≥ 0} p(x − u) F(x − v − κ), P_b(u, v; κ) = P_a(v, u; 1 − κ),
P_o = F(−1 − u) F(−1 − v). Sums are rounded outward.
Proof: docs/explanation/proofs-labels.md, "The cost of a label with discrete noise".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.label_tables import Cells, both_signs, edges
from patebench.accounting.logspace import Array

Integers = NDArray[np.int64]

#: More than the relative error of every sum, with what lies beyond the reach of the noise.
_ERROR = 1e-10

_CELLS = 1 << 21


#: Noise of a scale above the first is cut into coarser cells; above the second it takes too long.
_FINE, LARGEST_SCALE = 60.0, 300.0


@dataclass(frozen=True, eq=False)
class IntegerNoise:
    """Probabilities and distribution function at −reach … reach; beyond lie only 0 and 1.

    H(x) = ln F(x + 1) − ln F(x) falls with x, by `bend` per step at most, and is `steepest` at most. For Gaussian noise
    bend = 1/σ², as ln Σ_{z ≤ x} exp(−z²/2σ²) is −x²/2σ² and a convex function; for Laplace noise H ≤ γ, and r_a ≤ 2γ.
    """

    p: Array
    cdf: Array
    bend: float
    steepest: float

    @classmethod
    def of(cls, log_weight: Callable[[Array], Array], reach: int, bend: float, steepest: float) -> "IntegerNoise":
        """From ln of a symmetric weight of whole numbers."""
        weight = np.exp(log_weight(np.arange(-reach, reach + 1, dtype=np.float64)))
        below = np.cumsum(weight)
        return cls(weight / below[-1], below / below[-1], bend, steepest)

    @property
    def reach(self) -> int:
        return len(self.p) // 2

    def mass(self, z: Integers) -> Array:
        inside = np.abs(z) <= self.reach
        return np.where(inside, self.p[np.clip(z + self.reach, 0, 2 * self.reach)], 0.0)

    def below(self, z: Integers) -> Array:
        """Pr[Z ≤ z]."""
        inside = self.cdf[np.clip(z + self.reach, 0, 2 * self.reach)]
        return np.where(z < -self.reach, 0.0, inside)

    def neither_ratio(self, u: Integers, v: Integers) -> Array:
        """r_o, or NaN where no number can tell."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gained = np.log(self.below(-1 - v) / self.below(-2 - v)) - np.log(self.below(-u) / self.below(-1 - u))
        result: Array = np.where(np.isfinite(gained), gained, np.nan)
        return result


def gaussian(sigma: float) -> list[Cells]:
    """For Pr[z] ∝ exp(−z²/2σ²): all integers u, v ≥ −9σ with |u − v| ≤ 18σ."""
    reach = math.ceil(14 * sigma) + 2
    noise = IntegerNoise.of(lambda z: -z * z / (2 * sigma * sigma), reach, 1 / sigma**2, math.inf)
    w = edges(-1.2, (0.05, -0.6), (0.02, 3.0), (0.05, 4.0), (0.25, 9.0), (1.0, 20.0))
    fine = 1 if sigma <= _FINE else 2
    t = edges(0.0, (0.008 * fine, 1.6), (0.02 * fine, 4.0), (0.05 * fine, 8.0), (0.25, 18.0))
    return _cells(noise, w, t, 9.0, sigma)


def laplace(scale: float) -> list[Cells]:
    """For Pr[z] ∝ exp(−|z|/scale): all integers u, v at least −18 scales with |u − v| at most 36."""
    reach = math.ceil(46 * scale) + 2
    noise = IntegerNoise.of(lambda z: -np.abs(z) / scale, reach, math.inf, 1 / scale)
    w = edges(-0.8, (0.05, -0.4), (0.02, 1.6), (0.05, 4.0), (0.25, 12.0), (1.0, 20.0))
    fine = 1 if scale <= _FINE else 2
    t = edges(0.0, (0.008 * fine, 1.6), (0.02 * fine, 4.0), (0.1, 8.0), (0.25, 18.0), (1.0, 36.0))
    return _cells(noise, w, t, 18.0, scale)


def _cells(noise: IntegerNoise, w: Array, t: Array, out: float, scale: float) -> list[Cells]:
    """Both tie rules; edges are in scales, and end one beyond the last integer within."""
    rows, columns = (np.unique(np.round(each * scale).astype(np.int64)) for each in (w, both_signs(t)))
    columns = np.concatenate([[columns[0] - 1], columns, [columns[-1] + 2]])
    step, last = max(1, int(scale / 8)), math.ceil(out * scale)
    squares = np.arange(-last - step, last + 2 * step, step)
    return [
        each for tie in (0, 1) for each in (near(noise, rows, columns, tie), far(noise, squares, int(rows[0]), tie))
    ]


def near(noise: IntegerNoise, w: Integers, t: Integers, tie: int) -> Cells:
    """Cells of w and t, between edges that are whole numbers; the last cell of w has no end.

    Of rows of equal t, two are worked out at each end of a cell: one for each parity of w.
    """
    first, last = (t[:-1], np.minimum(t[:-1] + 1, t[1:] - 1)), (t[1:] - 1, np.maximum(t[1:] - 2, t[:-1]))
    rows = np.unique(np.concatenate([*first, *last]))
    ahead = _Rows.of(noise, w, rows, tie)
    behind = _Rows.of(noise, w, np.unique(np.concatenate([-rows, 2 - np.concatenate(last)])), 1 - tie)
    neither = _neither(noise, w, t)
    low = [np.minimum(*(ahead.low[:, ahead.at(each)] for each in first))]
    low += [np.minimum(*(behind.low[:, behind.at(-each)] for each in last)), neither[0]]
    high = [np.maximum(*(ahead.high[:, ahead.at(each)] for each in last))]
    high += [np.maximum(*(behind.high[:, behind.at(-each)] for each in first)), neither[1]]
    ratio = [np.maximum(*(ahead.ratio[:, ahead.at(each)] for each in first))]
    ratio += [-np.maximum(*(behind.ratio[:, behind.at(2 - each)] for each in last)), *neither[2:]]
    return Cells.of(np.minimum(np.stack(low), np.stack(high)), np.stack(high), np.stack(ratio))


@dataclass(frozen=True, eq=False)
class _Rows:
    """P_a at both ends of every cell of w, and a bound on r_a in it, for some t (columns)."""

    t: Integers
    low: Array
    high: Array
    ratio: Array

    def at(self, t: Integers) -> Integers:
        found: Integers = np.searchsorted(self.t, t)
        return found

    @classmethod
    def of(cls, noise: IntegerNoise, w: Integers, t: Integers, tie: int) -> "_Rows":
        length = 2 * noise.reach + 1
        block = max(1, _CELLS // length)
        parts = [cls._block(noise, w, t[start : start + block], tie) for start in range(0, len(t), block)]
        return cls(t, *(np.concatenate(each, axis=1) for each in zip(*parts, strict=True)))

    @staticmethod
    def _block(noise: IntegerNoise, w: Integers, t: Integers, tie: int) -> tuple[Array, Array, Array]:
        """u − 1 and v + 1 lose of P_a what has Z_a + u = 0, or else is ahead of b by less than 2.

        The second grows with w. The first is p(u)F(−v − κ): p is largest where u is nearest to 0, F at the least w.
        """
        z = np.arange(-noise.reach, noise.reach + 1)
        start = -((-w[:, None] - t) // 2)  # the least u of each cell, rounded up
        end = np.vstack([start[1:] - 1, np.full_like(t, noise.reach)])
        wins = _from(noise.p * noise.below(z + t[:, None] - tie))
        after = _from(noise.p * noise.below(z + t[:, None] - tie - 2))
        strip = _from(noise.p * (noise.mass(z + t[:, None] - tie) + noise.mass(z + t[:, None] - tie - 1)))
        low, high = _pick(wins, -start, noise.reach), _pick(wins, -end, noise.reach)
        lost = _pick(strip, 1 - end, noise.reach)
        lost = lost + noise.mass(np.clip(0, start, np.maximum(end, start))) * noise.below(t - start - tie)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log1p(lost * (1 + _ERROR) / (_pick(after, 1 - start, noise.reach) * (1 - _ERROR)))
        empty = end < start
        ratio = np.where(empty | (lost == 0), 0.0, np.minimum(ratio, 2 * noise.steepest)) * (1 + _ERROR)
        return np.where(empty, np.inf, low * (1 - _ERROR)), np.where(empty, 0.0, high * (1 + _ERROR)), ratio


def _from(terms: Array) -> Array:
    """Sums from every place to the end, per row; a last one of nothing."""
    sums = np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
    return np.pad(sums, ((0, 0), (0, 1)))


def _pick(sums: Array, z: Integers, reach: int) -> Array:
    """The sums from z on: z is places × rows, and `sums` rows × places."""
    result: Array = np.take_along_axis(sums.T, np.clip(z + reach, 0, 2 * reach + 1), axis=0)
    return result


def _neither(noise: IntegerNoise, w: Integers, t: Integers) -> tuple[Array, ...]:
    """P_o = F(−1−u)F(−1−v) in every cell, at least and at most, and the same of r_o, from the cell's corners.

    r_o is H(−2−v) − H(−1−u), H(x) = ln F(x + 1) − ln F(x) (see `IntegerNoise.bend`).
    """
    low_u, low_v = -((-w[:, None] - t[:-1]) // 2), -((-w[:, None] + t[1:] - 1) // 2)
    end = np.append(w[1:] - 1, 4 * noise.reach + w[-1])[:, None]
    high_u, high_v = (end + t[1:] - 1) // 2, (end - t[:-1]) // 2
    low = noise.below(-1 - high_u) * noise.below(-1 - high_v) * (1 - _ERROR)
    high = noise.below(-1 - low_u) * noise.below(-1 - low_v) * (1 + _ERROR)
    bend = min(noise.bend, 1e12)
    growth = np.minimum(bend * np.maximum(1 - t[:-1], 0), noise.steepest)
    fall = np.minimum(bend * np.maximum(t[1:] - 2, 0), noise.steepest)
    above = np.fmin(noise.neither_ratio(low_u, high_v), growth)
    below = np.fmax(noise.neither_ratio(high_u, low_v), -fall)
    return low, high, np.maximum(above, 0.0) * (1 + _ERROR), np.minimum(below, 0.0) * (1 + _ERROR)


def far(noise: IntegerNoise, edge: Integers, below: int, tie: int) -> Cells:
    """Squares of u and v between the same edges, those that reach below some w, by lemma 1 from their corners."""
    low, high = edge[:-1], edge[1:] - 1
    ahead, behind = _Scores(noise, tie), _Scores(noise, 1 - tie)
    least, most = ahead.wins(low, high), ahead.wins(high, low)
    loses, gains = behind.wins(low, high).T, behind.wins(high, low).T
    with np.errstate(divide="ignore"):
        first = np.log(least / ahead.wins(low - 1, high + 1))
        second = np.log(loses / behind.wins(low + 1, high - 1).T)
    wanted = low[:, None] + low < below
    neither_low, neither_high = (noise.below(-1 - each)[:, None] * noise.below(-1 - each) for each in (high, low))
    above = noise.neither_ratio(low[:, None], high[None, :])
    under = noise.neither_ratio(high[:, None], low[None, :])
    ratio = np.stack([first, second, np.maximum(above, 0.0), np.minimum(under, 0.0)])
    error = _ERROR * np.array([1, -1, 1, -1])[:, None, None]
    chances = np.stack([least, loses, neither_low]), np.stack([most, gains, neither_high])
    return Cells.of(
        np.where(wanted, chances[0] * (1 - _ERROR), 0.0),
        np.where(wanted, chances[1] * (1 + _ERROR), 0.0),
        np.where(wanted, ratio * (1 + _ERROR) + error, 0.0),
    )


@dataclass(frozen=True)
class _Scores:
    """P_a for all pairs of some u (rows) and v (columns)."""

    noise: IntegerNoise
    tie: int

    def wins(self, u: Integers, v: Integers) -> Array:
        x = np.arange(self.noise.reach + int(u[-1]) + 1)
        result: Array = self.noise.mass(x - u[:, None]) @ self.noise.below(x[:, None] - v - self.tie)
        return result
