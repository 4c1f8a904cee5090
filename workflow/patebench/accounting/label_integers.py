"""Bounds for `accounting.label` if the noise is an integer, so that noisy counts may be equal.

One vote moves from class a to class b. The integers u and v are the counts of a and b relative to the largest noisy
count of all other classes, as defined in the function `gaussian`. Z_a and Z_b are the noise of a and b. If a and b both
beat all other classes, a wins where Z_a + u ≥ Z_b + v + κ. Here κ is 0 or 1, depending on which classes win ties.
Bounds are computed for both values of κ, in cells, which are ranges of u and v (`label_tables.Cells`).

Let p(z) be the probability of the noise z, and F the distribution function of the noise. The probabilities that a, b or
another class wins are

    P_a(u, v; κ) = Σ_{x ≥ 0} p(x − u) F(x − v − κ),  P_b(u, v; κ) = P_a(v, u; 1 − κ),  P_o = F(−1 − u) F(−1 − v),

where x is the value of Z_a + u. The moved vote changes (u, v) to (u − 1, v + 1). Upper bounds are rounded up, and lower
bounds down.
Proof: docs/explanation/proofs-labels.md, "The cost of a label with discrete noise".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.label_tables import Cells, both_signs, edges
from patebench.accounting.logspace import Array
from patebench.core.blocks import blocks

Integers = NDArray[np.int64]

#: Upper bound on the relative error of every sum. It covers the probability of noise beyond ±reach, which is left out.
_ERROR = 1e-10

_CELLS = 1 << 21


#: Scale above which cells are coarser, and the largest supported scale.
_FINE, LARGEST_SCALE = 60.0, 300.0


@dataclass(frozen=True, eq=False)
class IntegerDistribution:
    """Distribution of noise Z on the integers from −reach to reach; larger values are taken to be impossible.

    Let F(x) = Pr[Z ≤ x], and let H(x) = ln F(x + 1) − ln F(x) be the increase of ln F in one step. H(x) is at most
    `steepest`, and decreases by at most `bend` from x to x + 1.
    """

    p: Array  # Pr[Z = z] for z from −reach to reach
    cdf: Array  # Pr[Z ≤ z]
    bend: float  # upper bound on H(x) − H(x + 1) for all x
    steepest: float  # upper bound on H(x) for all x

    @classmethod
    def of(
        cls, log_weight: Callable[[Array], Array], reach: int, bend: float, steepest: float
    ) -> "IntegerDistribution":
        """Create the distribution with Pr[z] ∝ exp(`log_weight(z)`) for |z| ≤ `reach`; `log_weight` is symmetric.

        The docstring of the class describes `bend` and `steepest`.
        """
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
        """Return Pr[Z ≤ z] for the noise Z."""
        inside = self.cdf[np.clip(z + self.reach, 0, 2 * self.reach)]
        return np.where(z < -self.reach, 0.0, inside)

    def neither_ratio(self, u: Integers, v: Integers) -> Array:
        """Return the privacy loss if neither class a nor class b wins: ln P_o(u, v) − ln P_o(u − 1, v + 1).

        P_o(u, v) = Pr[u + Z < 0]·Pr[v + Z < 0] is the probability of this outcome, with Z the noise. The function
        `gaussian` defines `u` and `v`. Entries are NaN where the privacy loss is infinite or undefined.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            gained = np.log(self.below(-1 - v) / self.below(-2 - v)) - np.log(self.below(-u) / self.below(-1 - u))
        return np.where(np.isfinite(gained), gained, np.nan)


def gaussian(sigma: float) -> list[Cells]:
    """Return bounds on the probabilities that class a, class b or neither wins with discrete Gaussian noise.

    One vote moves from a to b. Let n_a be the count of a, and y the largest noisy count of all classes except a and b.
    If a wins ties with the class of count y, u is n_a − y; if not, u is n_a − y − 1. In both cases, a beats all classes
    except b if u + noise ≥ 0. The number v is defined in the same way for b. The cells cover all integers u, v ≥ −9σ
    with |u − v| ≤ 18σ.
    """
    # `bend` is 1/σ², as ln Σ_{z ≤ x} exp(−z²/2σ²) is −x²/2σ² plus a convex function.
    reach = math.ceil(14 * sigma) + 2
    noise = IntegerDistribution.of(lambda z: -z * z / (2 * sigma * sigma), reach, 1 / sigma**2, math.inf)
    w = edges(-1.2, (0.05, -0.6), (0.02, 3.0), (0.05, 4.0), (0.25, 9.0), (1.0, 20.0))
    fine = 1 if sigma <= _FINE else 2
    t = edges(0.0, (0.008 * fine, 1.6), (0.02 * fine, 4.0), (0.05 * fine, 8.0), (0.25, 18.0))
    return _cells(noise, w, t, 9.0, sigma)


def laplace(scale: float) -> list[Cells]:
    """Return bounds on the probabilities that class a, class b or neither wins with discrete Laplace noise.

    The cells cover all integers u, v ≥ −18·`scale` with |u − v| ≤ 36·`scale`; `gaussian` defines u and v.
    """
    reach = math.ceil(46 * scale) + 2
    noise = IntegerDistribution.of(lambda z: -np.abs(z) / scale, reach, math.inf, 1 / scale)
    w = edges(-0.8, (0.05, -0.4), (0.02, 1.6), (0.05, 4.0), (0.25, 12.0), (1.0, 20.0))
    fine = 1 if scale <= _FINE else 2
    t = edges(0.0, (0.008 * fine, 1.6), (0.02 * fine, 4.0), (0.1, 8.0), (0.25, 18.0), (1.0, 36.0))
    return _cells(noise, w, t, 18.0, scale)


def _cells(noise: IntegerDistribution, w: Array, t: Array, largest: float, scale: float) -> list[Cells]:
    """Return bounds on the probabilities that class a, class b or neither wins, for κ = 0 and for κ = 1.

    The docstring of the module defines κ, which describes ties of a and b. The function `gaussian` defines u and v. The
    bounds are for cells of two kinds:

    - If u + v is at least `w[0]`, a cell is a range of u + v and a range of u − v.
    - If u + v is below `w[0]`, a cell is a square: a range of u and an equally long range of v.

    Parameters
    ----------
    w : edges of the ranges of u + v
    t : edges of the ranges of u − v ≥ 0; ranges of u − v < 0 have the same edges with a minus sign
    largest : largest |u| and |v| in the squares
    scale : noise scale; `w`, `t` and `largest` are in units of it
    """
    rows, columns = (np.unique(np.round(edge * scale).astype(np.int64)) for edge in (w, both_signs(t)))
    columns = np.concatenate([[columns[0] - 1], columns, [columns[-1] + 2]])
    # Square cells reach `largest` noise scales in u and in v.
    step, last = max(1, int(scale / 8)), math.ceil(largest * scale)
    squares = np.arange(-last - step, last + 2 * step, step)
    # If both beat all others, a wins where its score is at least that of b plus κ = `tie`.
    return [
        cells for tie in (0, 1) for cells in (near(noise, rows, columns, tie), far(noise, squares, int(rows[0]), tie))
    ]


def near(noise: IntegerDistribution, w: Integers, t: Integers, tie: int) -> Cells:
    """Return bounds on the probabilities that class a, class b or neither wins, in cells of u + v and of u − v.

    `gaussian` defines u and v. `w` and `t` are the edges of the cells; the last cells in u + v are unbounded. Class a
    is ahead of b if u + noise ≥ v + noise + `tie`, where `tie` is 0 or 1.
    """
    # As u and v are integers, u + v and u − v are both even or both odd. At each end of a cell of t, the bound is
    # therefore the weaker of two bounds: at the outermost even t and at the outermost odd t.
    first, last = (t[:-1], np.minimum(t[:-1] + 1, t[1:] - 1)), (t[1:] - 1, np.maximum(t[1:] - 2, t[:-1]))
    rows = np.unique(np.concatenate([*first, *last]))
    ahead = _WinBounds.of(noise, w, rows, tie)
    behind = _WinBounds.of(noise, w, np.unique(np.concatenate([-rows, 2 - np.concatenate(last)])), 1 - tie)
    neither = _bound_neither(noise, w, t)
    low = [np.minimum(*(ahead.low[:, ahead.index_of(end)] for end in first))]
    low += [np.minimum(*(behind.low[:, behind.index_of(-end)] for end in last)), neither[0]]
    high = [np.maximum(*(ahead.high[:, ahead.index_of(end)] for end in last))]
    high += [np.maximum(*(behind.high[:, behind.index_of(-end)] for end in first)), neither[1]]
    ratio = [np.maximum(*(ahead.ratio[:, ahead.index_of(end)] for end in first))]
    ratio += [-np.maximum(*(behind.ratio[:, behind.index_of(2 - end)] for end in last)), *neither[2:]]
    return Cells.of(np.minimum(np.stack(low), np.stack(high)), np.stack(high), np.stack(ratio))


@dataclass(frozen=True, eq=False)
class _WinBounds:
    """Bounds on the probability P_a that class a wins, and on the privacy loss ln P_a(u, v) − ln P_a(u − 1, v + 1).

    All bounds are arrays (cells of w = u + v, values `t` of u − v); `gaussian` defines u and v.
    """

    t: Integers  # u − v
    low: Array  # bounds on P_a
    high: Array
    ratio: Array  # upper bound on the privacy loss

    def index_of(self, t: Integers) -> Integers:
        return np.searchsorted(self.t, t)

    @classmethod
    def of(cls, noise: IntegerDistribution, w: Integers, t: Integers, tie: int) -> "_WinBounds":
        size = _CELLS // (2 * noise.reach + 1)
        parts = [cls._compute_block(noise, w, t[block], tie) for block in blocks(len(t), size)]
        return cls(t, *(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))

    @staticmethod
    def _compute_block(noise: IntegerDistribution, w: Integers, t: Integers, tie: int) -> tuple[Array, Array, Array]:
        """Return bounds on the probability P_a that class a wins, and on the privacy loss of this outcome.

        The result is a lower bound on P_a, an upper bound on P_a, and an upper bound on the privacy loss. Each is an
        array (cells of u + v with edges `w`, values `t` of u − v). For u, v and `tie`, see `near`.
        """
        z = np.arange(-noise.reach, noise.reach + 1)
        start = -((-w[:, None] - t) // 2)  # the least u of each cell, rounded up
        end = np.vstack([start[1:] - 1, np.full_like(t, noise.reach)])
        wins = _tail_sums(noise.p * noise.below(z + t[:, None] - tie))
        after = _tail_sums(noise.p * noise.below(z + t[:, None] - tie - 2))
        strip = _tail_sums(noise.p * (noise.mass(z + t[:, None] - tie) + noise.mass(z + t[:, None] - tie - 1)))
        low, high = _read_tail_sums(wins, -start), _read_tail_sums(wins, -end)
        # If u falls and v rises by 1, a no longer wins in two groups of outcomes. In the first group, a was ahead of b
        # by less than 2; its probability grows with w. In the second group, Z_a + u = 0; its probability p(u)F(−v − κ)
        # is largest at the u nearest to 0 and at the least w.
        removed = _read_tail_sums(strip, 1 - end)
        removed = removed + noise.mass(np.clip(0, start, np.maximum(end, start))) * noise.below(t - start - tie)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log1p(removed * (1 + _ERROR) / (_read_tail_sums(after, 1 - start) * (1 - _ERROR)))
        empty = end < start
        ratio = np.where(empty | (removed == 0), 0.0, np.minimum(ratio, 2 * noise.steepest)) * (1 + _ERROR)
        return np.where(empty, np.inf, low * (1 - _ERROR)), np.where(empty, 0.0, high * (1 + _ERROR)), ratio


def _tail_sums(terms: Array) -> Array:
    """Return, for each row of `terms`, the sums from each index to the end, followed by a 0."""
    sums = np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
    return np.pad(sums, ((0, 0), (0, 1)))


def _read_tail_sums(sums: Array, z: Integers) -> Array:
    """Return the sum of the terms at noise values ≥ z, for each entry z of the array `z` (cells × columns).

    Every column of `z` has its own terms, at the noise values −reach to reach. `sums` (columns × values) is the result
    of `_tail_sums` for these terms.
    """
    reach = sums.shape[1] // 2 - 1
    return np.take_along_axis(sums.T, np.clip(z + reach, 0, 2 * reach + 1), axis=0)


def _bound_neither(noise: IntegerDistribution, w: Integers, t: Integers) -> tuple[Array, ...]:
    """Return four bounds for the outcome that neither class a nor class b wins.

    They are a lower and an upper bound on the probability of this outcome, and an upper and a lower bound on its
    privacy loss. All are arrays (cells of w = u + v, cells of t = u − v); `gaussian` defines u and v.
    """
    low_u, low_v = -((-w[:, None] - t[:-1]) // 2), -((-w[:, None] + t[1:] - 1) // 2)
    end = np.append(w[1:] - 1, 4 * noise.reach + w[-1])[:, None]
    high_u, high_v = (end + t[1:] - 1) // 2, (end - t[:-1]) // 2
    low = noise.below(-1 - high_u) * noise.below(-1 - high_v) * (1 - _ERROR)
    high = noise.below(-1 - low_u) * noise.below(-1 - low_v) * (1 + _ERROR)
    bend = min(noise.bend, 1e12)
    growth = np.minimum(bend * np.maximum(1 - t[:-1], 0), noise.steepest)
    fall = np.minimum(bend * np.maximum(t[1:] - 2, 0), noise.steepest)
    # The privacy loss is H(−2 − v) − H(−1 − u) with H(x) = ln F(x + 1) − ln F(x), bounded at the corners of the cell.
    above = np.fmin(noise.neither_ratio(low_u, high_v), growth)
    below = np.fmax(noise.neither_ratio(high_u, low_v), -fall)
    return low, high, np.maximum(above, 0.0) * (1 + _ERROR), np.minimum(below, 0.0) * (1 + _ERROR)


def far(noise: IntegerDistribution, edge: Integers, below: int, tie: int) -> Cells:
    """Return bounds on the probabilities that class a, class b or neither wins, in square cells of u and v.

    `edge` are the edges of the cells in u and in v. For u, v and `tie`, see `near`. Bounds are computed for squares
    that contain points with u + v < `below`. All other squares get bounds of 0, because `near` covers them.
    """
    # Bounds are computed at the corners of a square, by lemma 1 in docs/explanation/proofs-labels.md.

    def win_probabilities(u: Integers, v: Integers, tie: int) -> Array:
        """Return the probability (`u` × `v`) that class a wins; `near` explains `u`, `v` and `tie`."""
        x = np.arange(noise.reach + int(u[-1]) + 1)
        return noise.mass(x - u[:, None]) @ noise.below(x[:, None] - v - tie)

    low, high = edge[:-1], edge[1:] - 1
    least, most = win_probabilities(low, high, tie), win_probabilities(high, low, tie)
    loses, gains = win_probabilities(low, high, 1 - tie).T, win_probabilities(high, low, 1 - tie).T
    with np.errstate(divide="ignore"):
        first = np.log(least / win_probabilities(low - 1, high + 1, tie))
        second = np.log(loses / win_probabilities(low + 1, high - 1, 1 - tie).T)
    wanted = low[:, None] + low < below
    neither_low, neither_high = (noise.below(-1 - end)[:, None] * noise.below(-1 - end) for end in (high, low))
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
