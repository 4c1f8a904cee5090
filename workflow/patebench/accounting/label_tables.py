"""Bounds for `accounting.label` with continuous noise, computed for each cell of a grid.

u and v are the counts of classes a and b minus the largest noisy count of all other classes, in noise scales. A cell is
a range of u and v. In the grid, rows are ranges of w = u + v, and columns are ranges of t = u − v. P and Q are the
probabilities of an outcome before and after one vote moves from a to b. P_a, P_b and P_o are the values of P for the
outcomes that a, b or neither wins. The divergence of P from Q is computed from r = ln P − ln Q by `excess`. All results
are bounds: upper bounds are rounded up, and lower bounds down.
Proof: docs/explanation/proofs-labels.md, "Tables of the cost of a label".
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from patebench.accounting.logspace import Array

#: Upper bound on the relative rounding error below; cancellation in f loses at most 4·2⁻⁵²/_SMALL.
_ROUNDING = 1e-10

#: Largest α·|r| for which f is bounded by its Taylor polynomial.
_SMALL = 1e-4

_ROWS, _COLUMNS = 3, 3  # cells per block


def excess(ratio: Array, order: float) -> Array:
    """Return f(r) = (e^{(α−1)r} − 1) + (α−1)(e^{−r} − 1) ≥ 0 for each `ratio` r, rounded up by at most a relative 1e-4.

    α is `order`. The divergence of P from Q is ln(1 + Σ P·f(r))/(α − 1) with r = ln P − ln Q.
    """
    # f′(r) = (α−1)e^{(α−1)r}(1 − e^{−αr}) is at most α(α−1)·r·e^{(α−1)r} for r ≥ 0, and −f′(r) at most
    # α(α−1)·|r|·e^{|r|} for r < 0; so f(r) ≤ α(α−1)r²/2 · e^{max((α−1)r, −r)}.
    scaled = (order - 1) * ratio
    small = order * np.abs(ratio) <= _SMALL
    with np.errstate(over="ignore", invalid="ignore"):
        power = np.exp(np.maximum(scaled, -ratio))
        polynomial = order * scaled * ratio / 2 * power
        result: Array = np.where(small, polynomial, np.expm1(scaled) + (order - 1) * np.expm1(-ratio))
    return result


@dataclass(frozen=True, eq=False)
class Cells:
    """Bounds on the probabilities P of three outcomes: class a, class b or neither of them wins.

    A cell is a range of counts of a and b. A block is a group of neighbouring cells, which can be bounded together. The
    privacy loss of an outcome is r = ln P − ln P′, where P′ is the probability after a vote has moved from a to b.

    Parameters
    ----------
    low, high : (3 outcomes, blocks, cells per block) lower and upper bounds on P
    ratio : (4, blocks, cells per block) four bounds on r: upper bound if a wins, lower bound if b wins, upper bound if
        neither wins, lower bound if neither wins
    """

    low: Array
    high: Array
    ratio: Array

    @classmethod
    def of(cls, low: Array, high: Array, ratio: Array) -> "Cells":
        """Create cells from bounds on a grid: `low`, `high` and `ratio` are (bounds × rows × columns)."""
        return cls(*(_cut_into_blocks(values) for values in (low, high, ratio)))

    @cached_property
    def _blocks(self) -> tuple[Array, Array, Array]:
        """Return `low`, `high` and `ratio` with one entry per block instead of per cell, valid for all its cells."""
        farthest = np.abs(self.ratio).max(axis=2) * np.array([1, -1, 1, -1])[:, None]
        return self.low.min(axis=2), self.high.max(axis=2), farthest

    def worst(self, order: float) -> float:
        """Return an upper bound on D_α(P ‖ P′) of `Cells`, for α = `order` and all counts in the cells."""

        def inner(blocks: NDArray[np.intp]) -> Array:
            return _bound_sums(self.low[:, blocks], self.high[:, blocks], self.ratio[:, blocks], order)

        # Cells of the block with the largest bound come first, then cells of blocks that may have a larger one.
        outer = _bound_sums(*self._blocks, order)
        greatest = float(inner(np.array([np.argmax(outer)])).max())
        greatest = max(greatest, float(inner(np.flatnonzero(outer > greatest)).max(initial=0.0)))
        return float(np.log1p(greatest)) * (1 + _ROUNDING) / (order - 1)


def _bound_sums(low: Array, high: Array, ratio: Array, order: float) -> Array:
    """Return an upper bound on Σ P·f(r) per cell or block, from bounds `low` and `high` on P, and `ratio` on r.

    The sum is over three outcomes: class a, class b or neither wins. P is the probability of an outcome, r its privacy
    loss, and f(r) the `excess` of r.
    """
    # The least of three upper bounds on Σ P·f(r). In the first, every P is at its upper bound. In the other two, P_a or
    # P_b is eliminated by Σ P = 1.
    first, second, above, below = excess(ratio, order)
    neither = np.maximum(above, below)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = high[0] * first + high[1] * second + high[2] * neither
        for index, own, opposite in ((1, first, second), (0, second, first)):
            gain, gain_of_neither = opposite - own, neither - own
            partial = own + np.where(gain > 0, high[index], low[index]) * gain
            sums = np.fmin(sums, partial + np.where(gain_of_neither > 0, high[2], low[2]) * gain_of_neither)
    return np.where(np.isnan(sums), np.inf, sums * (1 + _ROUNDING))


def _cut_into_blocks(values: Array) -> Array:
    """Return `values` (bounds × rows × columns) as (bounds × blocks × cells per block).

    Blocks at the end of the grid are filled up with copies of the last cells.
    """
    bounds, rows, columns = values.shape
    padded = np.pad(values, ((0, 0), (0, -rows % _ROWS), (0, -columns % _COLUMNS)), mode="edge")
    cut = padded.reshape(bounds, padded.shape[1] // _ROWS, _ROWS, -1, _COLUMNS)
    return np.moveaxis(cut, 2, 3).reshape(bounds, -1, _ROWS * _COLUMNS)


#: Upper bound on the relative errors of quadrature (see `_gaussian_wins`) and of SciPy's `ndtr`.
ERROR = 1e-11

#: Largest supported vote, in noise scales.
LARGEST = 1.0

#: Finite number used as the bound of an unbounded slope.
_STEEP = 1e12


@dataclass(frozen=True, eq=False)
class Table:
    """Bounds on the probabilities P_a that class a wins and P_o that neither class a nor class b wins a noisy argmax.

    u and v are the counts of classes a and b minus the largest noisy count of all other classes. Rows are cells of w =
    u + v, the last of which is unbounded. Columns are values of t = u − v. The probability that b wins at t is P_a at
    −t. All arrays except `t` are (cells of w, values of t).

    Parameters
    ----------
    t : ascending values of u − v, symmetric about 0
    wins_low, wins_high : lower and upper bound on P_a in the cell of w
    steep : upper bound on ∂ ln P_a/∂t in the cell of w
    neither, neither_low : upper and lower bound on P_o in the cell of w
    neither_steep : upper bound on |∂ ln P_o/∂t| in the cell of w
    fall : upper bound on the decrease of ∂ ln P_a/∂t and of ∂ ln P_o/∂t per unit of t
    """

    t: Array
    wins_low: Array
    wins_high: Array
    steep: Array
    neither: Array
    neither_low: Array
    neither_steep: Array
    fall: float


def edges(start: float, *pieces: tuple[float, float]) -> Array:
    """Return ascending edges of cells from `start` on; `pieces` are pairs (step width, end) of successive intervals."""
    parts = [np.array([start])]
    for step, end in pieces:
        number = round((end - start) / step)
        parts.append(start + (end - start) * np.arange(1, number + 1) / number)
        start = end
    return np.concatenate(parts)


def both_signs(t: Array) -> Array:
    """Return the ascending edges `t`, which start at 0, together with their negatives."""
    return np.concatenate([-t[:0:-1], t])


@cache
def gaussian() -> Table:
    """Return bounds on the probability of each outcome of a noisy argmax with noise N(0, 1).

    The table covers u + v from −22, and u − v from −24 to 24, with u and v as in `Table`.
    """
    # ln P_a is concave. The second derivative of ln P_a along t is Var(S_a/2 − S_b/2 | a wins) − 1/2 ≥ −1/2, with S_a =
    # u + noise and S_b = v + noise. The second derivatives along u and along v are Var(S_a | a wins) − 1 and
    # Var(S_b | a wins) − 1, both from −1 to 0. A quarter of their difference is the derivative of ∂ ln P_a/∂t along w.
    # So within a cell of w, ∂ ln P_a/∂t exceeds its value at the middle by at most an eighth of the cell's width. P_o
    # is Φ(−u)Φ(−v), and the hazard φ/Φ(−·) has slopes between 0 and 1.
    w = edges(-22.0, (0.25, -3.0), (0.125, -1.0), (0.05, -0.6), (0.02, 3.0), (0.05, 4.0), (0.25, 9.0), (0.5, 28.0))
    t = both_signs(edges(0.0, (0.008, 1.6), (0.02, 5.0), (0.05, 12.0), (0.2, 24.0)))
    halves = np.sort(np.concatenate([w, (w[1:] + w[:-1]) / 2]))[:, None]
    wins = _gaussian_wins(halves[:, 0], t)
    tie_density = np.exp(-t * t / 4) / (2 * np.sqrt(np.pi)) * ndtr(halves / np.sqrt(2))
    limits = ndtr(t / np.sqrt(2)), np.exp(-t * t / 4) / (2 * np.sqrt(np.pi))
    u, v = (halves + t) / 2, (halves - t) / 2
    middle = slice(1, None, 2)
    corner = (tie_density + _density(u) * ndtr(-v) / 2)[middle] / wins[middle] + np.diff(w)[:, None] / 8
    return _create_table(
        w, t, wins[::2], tie_density[::2], limits, corner, density=_density, below=ndtr, bend=1.0, slope=np.inf
    )


def _density(x: Array) -> Array:
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def _gaussian_wins(w: Array, t: Array) -> Array:
    """Return the probability (`w` × `t`) that class a wins with noise N(0, 1); `Table` defines a, `w` and `t`."""
    # ∫ φ(u)Φ(−v)/2 dw; the omitted part, below u = −20 + t/2, is below 1e-14 of the integral.
    start = w[0] - 0.25 * np.arange(72, 0, -1)
    low, high = np.concatenate([start, w[:-1]]), np.concatenate([start[1:], w[:1], w[1:]])
    total = np.zeros((len(low), len(t)))
    narrow = high - low <= 1 / 16
    # As |φ(x + iy)| = φ(x) e^{y²/2}, |Φ(x + iy)| ≤ Φ(x) e^{y²/2}. The Bernstein ellipse of parameter ρ > 1 of a panel
    # of half width ℓ has half axes of at most a = ℓ(ρ + 1/ρ)/2. On it, the integrand is at most M, which is e^{a²/4 +
    # ka} times its value at the middle, with k < 18 the steepest slope of its logarithm. The error with N nodes is
    # below (64/15)·ρ^{−2N}/(1 − ρ^{−2}) of M (Trefethen 2008, *Is Gauss quadrature better than Clenshaw–Curtis?*,
    # Theorem 4.5): 1e-15 with ℓ = 1/8, ρ = 20, N = 10, and 1e-13 with ℓ = 1/32, ρ = 50, N = 6.
    for rows, number in ((narrow, 6), (~narrow, 10)):
        width = (high - low)[rows, None]
        for node, weight in zip(*np.polynomial.legendre.leggauss(number), strict=True):
            at = low[rows, None] + width * (1 + node) / 2
            total[rows] += weight / 4 * width * _density((at + t) / 2) * ndtr((t - at) / 2)
    return np.cumsum(total, axis=0)[len(start) - 1 :]


@cache
def laplace() -> Table:
    """Return bounds on the probability of each outcome of a noisy argmax with Laplace noise of scale 1.

    The table covers u + v from −36, and u − v from −48 to 48, with u and v as in `Table`.
    """
    # The slope of ln f is at most 1, and so is the slope of ln P_a in u and in v.
    w = edges(
        -36.0,
        (1.0, -12.0),
        (0.25, -4.0),
        (0.1, -0.8),
        (0.05, -0.2),
        (0.012, 0.6),
        (0.02, 1.6),
        (0.05, 4.0),
        (0.25, 12.0),
        (1.0, 24.0),
    )
    t = both_signs(edges(0.0, (0.005, 0.4), (0.01, 1.6), (0.02, 4.0), (0.05, 8.0), (0.125, 24.0), (0.5, 48.0)))
    column, apart = w[:, None], np.diff(w)[:, None]
    middle, ahead = column[:-1] + apart / 2, t - apart / 2
    slope = (
        _laplace_tie_density(middle, ahead)
        + _laplace_density((middle + ahead) / 2) * _laplace_below((ahead - middle) / 2) / 2
    )
    corner = slope / _laplace_wins(middle, ahead)
    limits = _laplace_wins(np.full((1, 1), np.inf), t)[0], _laplace_tie_density(np.full((1, 1), np.inf), t)[0]
    wins, tie_density = _laplace_wins(column, t), _laplace_tie_density(column, t)
    return _create_table(
        w, t, wins, tie_density, limits, corner, density=_laplace_density, below=_laplace_below, bend=_STEEP, slope=1.0
    )


def _laplace_density(x: Array) -> Array:
    return np.exp(-np.abs(x)) / 2


def _laplace_below(x: Array) -> Array:
    tail = np.exp(-np.abs(x)) / 2
    return np.where(x < 0, tail, 1 - tail)


def _laplace_wins(w: Array, t: Array) -> Array:
    """Return the probability that class a wins with Laplace noise of scale 1; `Table` defines a, `w` and `t`."""
    # ∫_{z > −u} f(z) F(z + t) dz
    c, apart = np.broadcast_arrays(-(w + t) / 2, np.abs(t))
    tie, up, down = np.exp(-apart), np.exp(np.minimum(c, 0)), np.exp(-np.maximum(c, 0))
    ahead = np.where(
        c >= 0,
        down / 2 - down * down * tie / 8,
        np.where(
            c >= -apart,
            1 - tie / 8 - up / 2 + np.maximum(c, -apart) * tie / 4,
            1 - tie / 2 - apart * tie / 4 - up * np.exp(np.minimum(c + apart, 0)) / 8,
        ),
    )
    behind = np.where(
        c >= apart,
        down / 2 - np.exp(apart - 2 * np.maximum(c, apart)) / 8,
        tie * np.where(c >= 0, 3 / 8 + (apart - c) / 4, 1 / 2 + apart / 4 - up * up / 8),
    )
    return np.where(t >= 0, ahead, behind)


def _laplace_tie_density(w: Array, t: Array) -> Array:
    """Return the density of a tie of classes a and b: ∫ f(x − u) f(x − v) dx over x > 0, with f(x) = e^{−|x|}/2.

    `Table` defines u, v, `w` and `t`.
    """
    apart = np.abs(t)
    # G = ∫_{z > c} f(z) f(z + |t|) dz with c = −max(u, v)
    c, apart = np.broadcast_arrays(-(w + apart) / 2, apart)
    tie, down = np.exp(-apart), np.exp(-np.maximum(c, 0))
    beyond = tie / 8 + (tie / 8 - np.exp(2 * np.minimum(c, -apart) + apart) / 8) + apart * tie / 4
    between = tie / 4 * (0.5 - np.clip(c, -apart, 0))
    return np.where(c >= 0, down * down * tie / 8, np.where(c >= -apart, between, beyond))


def _create_table(
    w: Array,
    t: Array,
    wins: Array,
    tie_density: Array,
    limits: tuple[Array, Array],
    corner: Array,
    *,
    density: Callable[[Array], Array],
    below: Callable[[Array], Array],
    bend: float,
    slope: float,
) -> Table:
    """Create the table for noise with the density f = `density` and the distribution function F = `below`.

    Parameters
    ----------
    w, t : edges of the cells
    wins, tie_density : (edges of w, edges of t) probability P_a that class a wins, and density of a tie of a and b
    limits : limits of `wins` and of `tie_density` as w → ∞
    corner : (cells of w except the last, edges of t) upper bound on ∂ ln P_a/∂t; used where other bounds are larger
    bend : upper bound on the derivative of f(x)/F(−x)
    slope : upper bound on the derivative of ln f, which is also an upper bound on ∂ ln P_a/∂t
    """
    u, v = (w[:, None] + t) / 2, (w[:, None] - t) / 2
    above_u, above_v = below(-u), below(-v)
    hazard_u, hazard_v = density(u) / above_u, density(v) / above_v
    endless, nothing = np.full((1, len(t)), np.inf), np.zeros((1, len(t)))
    nearest = density(np.clip(0.0, u, np.vstack([u[1:], endless])))
    steep = (np.vstack([tie_density[1:], limits[1]]) + nearest * above_v / 2) / wins
    steep[:-1] = np.minimum(steep[:-1], corner)
    ahead = np.maximum(np.vstack([hazard_u[1:], endless]) - hazard_v, 0.0) / 2
    ahead = np.where(t >= 0, ahead, ahead[:, ::-1])
    ahead = np.minimum(ahead, np.minimum(bend * np.abs(t), slope) / 2)
    neither = above_u * above_v
    return Table(
        t=t,
        wins_low=wins * (1 - ERROR),
        wins_high=np.vstack([wins[1:], limits[0]]) * (1 + ERROR),
        steep=np.minimum(steep, slope) * (1 + ERROR),
        neither=neither * (1 + ERROR),
        neither_low=np.vstack([neither[1:], nothing]) * (1 - ERROR),
        neither_steep=ahead * (1 + ERROR),
        fall=bend / 2,
    )


def cells(table: Table, s: float) -> Cells:
    """Return the bounds from `table` on all outcomes, if one vote changes a count by `s` noise scales."""
    low, high = _inner_edges(table.t)
    mirrored = len(table.t) - 1 - high
    towards = np.where(table.t < 0, table.neither_steep, 0.0)
    ratio = [
        _integrate_before(table.steep, table, low, 2 * s),
        -_integrate_after(table.steep, table, mirrored, 2 * s),
        _integrate_before(towards, table, low, 2 * s),
        -_integrate_after(towards, table, mirrored, 2 * s),
    ]
    return Cells(*_bound_probabilities(table), _cut_into_blocks(np.stack(ratio) * (1 + _ROUNDING)))


def _inner_edges(t: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices in `t` of the lower edges, and of the upper edges, of all cells used in `Cells`.

    The outermost cells of `t` are left out, because a changed vote would lead to counts outside the table.
    """
    # A vote of s noise scales changes t by 2s.
    inside = np.flatnonzero(np.abs(t) <= t[-1] - 2 * LARGEST)
    return inside[:-1], inside[1:]


@lru_cache(maxsize=2)
def _bound_probabilities(table: Table) -> tuple[Array, Array]:
    """Return lower and upper bounds on the probability of each outcome: the fields `low` and `high` of `Cells`."""
    low, high = _inner_edges(table.t)
    mirrored_low, mirrored_high = (len(table.t) - 1 - index for index in (low, high))
    near, far = np.where(table.t[low] >= 0, (low, high), (high, low))
    least = np.stack([table.wins_low[:, low], table.wins_low[:, mirrored_high], table.neither_low[:, far]])
    most = np.stack([table.wins_high[:, high], table.wins_high[:, mirrored_low], table.neither[:, near]])
    return _cut_into_blocks(least), _cut_into_blocks(most)


def _integrate_before(slope: Array, table: Table, ends: NDArray[np.intp], length: float) -> Array:
    """Return upper bounds on ∫ slope dt over the intervals of length `length` that end at `table.t[ends]`.

    `slope` (cells, values of `table.t`) contains upper bounds on a slope, such as that of the log probability that
    class a wins. The result is (cells, ends).
    """
    t, (total, inner) = table.t, _integrate_to_edges(slope, table)
    last = np.minimum(np.searchsorted(t, t[ends] - length, side="right") - 1, ends - 1)
    part = length - (t[ends] - t[last + 1])
    # The slope decreases by at most `table.fall` per unit of t. So between two edges, the mean slope has two upper
    # bounds: the slope at the first edge, and the slope at the second edge plus the largest mean decrease.
    rest = np.minimum(slope[:, last], slope[:, last + 1] + table.fall * part / 2) * part
    return total[:, ends] - total[:, last + 1] + np.minimum(rest, inner[:, last])


def _integrate_after(slope: Array, table: Table, starts: NDArray[np.intp], length: float) -> Array:
    """Return upper bounds on ∫ slope dt over the intervals of length `length` that start at `table.t[starts]`.

    See `_integrate_before`. The result is (cells, starts).
    """
    t, (total, _) = table.t, _integrate_to_edges(slope, table)
    last = np.maximum(np.searchsorted(t, t[starts] + length, side="left") - 1, starts)
    part = length - (t[last] - t[starts])
    return total[:, last] - total[:, starts] + slope[:, last] * part


def _integrate_to_edges(slope: Array, table: Table) -> tuple[Array, Array]:
    """Return upper bounds on ∫ slope dt: from the first of `table.t` to each value, and between adjacent values."""
    step = np.diff(table.t)
    inner = np.minimum(slope[:, :-1], slope[:, 1:] + table.fall * step / 2) * step
    return np.pad(np.cumsum(inner, axis=1), ((0, 0), (1, 0))), inner
