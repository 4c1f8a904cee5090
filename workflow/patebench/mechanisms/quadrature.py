"""Exact outcome probabilities of a noisy argmax, by quadrature in log space.

Class j with count c_j wins with probability P(j) = ∫ f(x − c_j) Π_{k≠j} F(x − c_k) dx, with f and F the density and the
distribution function of the noise. Every integrand is log-concave, so the location of its mass can be predicted.
Gauss–Legendre panels cover these locations for all classes of a query. Sums of positive terms have a small relative
error, however small P(j) is. Distances are in units of the noise scale.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array, hazard, log1mexp, logsumexp, rowwise
from patebench.accounting.votes import multiplicities, ranks
from patebench.core.blocks import blocks
from patebench.mechanisms.noise import Gaussian, Laplace, Noise

Integers = NDArray[np.int64]

#: Gauss–Legendre nodes and ln weights on [0, 1], for each panel.
NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
NODES, LOG_WEIGHTS = (NODES + 1) / 2, np.log(_WEIGHTS / 2)

#: Numbers in one block of queries, which bounds memory.
_CELLS = 1 << 21

#: Distance below the peak of ln(integrand) at which the integrand is cut off.
_DROP = 40.0

#: Width of the cells for Gaussian noise, in noise scales.
_CELL = 2.0

#: Largest distance behind the plurality, in noise scales. Larger distances are clipped to it, as P is below exp(−10¹²).
_FAR = 1e12

#: Distances above a count, in noise scales, at which panels end, since the Laplace distribution function bends there.
#: They suffice for thousands of tied counts.
_BENDS = (3.0, 6.0, 10.0, 25.0, 50.0)


@dataclass(frozen=True)
class Histograms:
    """Vote counts of several queries, all with the same number of distinct counts.

    Parameters
    ----------
    values : (queries, distinct counts) distinct counts minus the largest count, in noise scales, in descending order
    multiplicity : (queries, distinct counts) number of classes with this count
    """

    values: Array
    multiplicity: Integers

    @classmethod
    def of(cls, counts: Array, rank: Integers, scale: float) -> "Histograms":
        """Create histograms from `counts` (queries × classes) with descending rows; `scale` is that of the noise.

        `rank` is 0 for the largest count of a row, 1 for the next distinct one, and so on; the number of ranks is the
        same in each row.
        """
        values = np.empty((len(counts), int(rank[0, -1]) + 1))
        with np.errstate(over="ignore"):
            behind = np.maximum((counts - counts[:, :1]) / scale, -_FAR)
        np.put_along_axis(values, rank, behind, axis=1)
        return cls(values, multiplicities(rank))


@dataclass(frozen=True)
class Panels:
    """Intervals of integration: interval i is from `low[i]` to `high[i]` and belongs to query `row[i]` (ascending)."""

    row: Integers
    low: Array
    high: Array


def log_argmax_probabilities(counts: NDArray[np.number], noise: Noise) -> Array:
    """Return ln of the probability that each class is argmax(counts + noise), (queries × classes)."""
    return rowwise(lambda block: _solve_block(block, noise), np.asarray(counts, dtype=np.float64))


def _solve_block(counts: Array, noise: Noise) -> Array:
    if noise.scale == 0:
        certain = np.full(counts.shape, -np.inf)
        np.put_along_axis(certain, np.argmax(counts, axis=1)[:, None], 0.0, axis=1)
        return certain
    order = np.argsort(-counts, axis=1, kind="stable")
    ordered, inverse = np.unique(np.take_along_axis(counts, order, axis=1), axis=0, return_inverse=True)
    log_p = _sorted_probabilities(ordered, noise)[inverse.reshape(-1)]
    result = np.empty(counts.shape)
    np.put_along_axis(result, order, log_p, axis=1)
    return result


def _sorted_probabilities(counts: Array, noise: Noise) -> Array:
    """Return `log_argmax_probabilities`, for `counts` whose rows are already in descending order."""
    rank = ranks(counts)
    result = np.empty(counts.shape)
    # Classes with equal counts are integrated once.
    for rows in group_by_ranks(np.arange(len(counts)), rank, lambda r: _CELLS // (32 * len(NODES) * r)):
        histograms = Histograms.of(counts[rows], rank[rows], noise.scale)
        log_p = _sum_panels(histograms, panels(noise, histograms), noise)
        result[rows] = np.take_along_axis(log_p, rank[rows], axis=1)
    # For a nearly certain plurality, the complement of the other classes is more precise.
    others = logsumexp(result[:, 1:])
    near_certain = others < -1
    result[near_certain, 0] = log1mexp(others[near_certain])
    return result


def group_by_ranks(rows: Integers, rank: Integers, batch_size: Callable[[int], int]) -> Iterator[Integers]:
    """Split `rows`, indices of histograms, into batches of histograms with the same number of distinct counts (ranks).

    `rank` (histograms × classes) is the rank of each class by its count. `batch_size(r)` is the largest size of a batch
    for r ranks.
    """
    for most in np.unique(rank[rows, -1]):
        chosen = rows[rank[rows, -1] == most]
        yield from (chosen[block] for block in blocks(len(chosen), batch_size(int(most) + 1)))


def _sum_panels(histograms: Histograms, intervals: Panels, noise: Noise) -> Array:
    """Return, for each distinct count, ln Pr[a given class with this count wins], (queries × distinct counts)."""
    width = (intervals.high - intervals.low)[:, None]
    x = intervals.low[:, None] + width * NODES
    distance = x[:, :, None] - histograms.values[intervals.row, None, :]
    below = noise.log_distribution(distance)
    everyone = np.sum(below * histograms.multiplicity[intervals.row, None, :], axis=2)
    log_weights = np.log(width) + LOG_WEIGHTS
    terms = noise.log_density(distance) - below + (everyone + log_weights)[:, :, None]
    starts = np.searchsorted(intervals.row, np.arange(len(histograms.values)))
    return np.logaddexp.reduceat(logsumexp(terms, axis=1), starts, axis=0)


@singledispatch
def panels(noise: Noise, histograms: Histograms, shift: float = 0.0) -> Panels:
    """Return short integration intervals that contain nearly all of the integral Pr[class wins] of every class.

    `shift` is the size of one vote, in noise scales. If it is positive and at most 1, the intervals are also valid for
    all neighbours, which are histograms with one vote moved.
    """
    raise TypeError(f"quadrature is implemented for Gaussian and Laplace noise, not for {type(noise).__name__}")


@panels.register
def _(noise: Gaussian, histograms: Histograms, shift: float = 0.0) -> Panels:
    """Return integration intervals around the modes of the integrands of all classes.

    The intervals are narrow where ln(integrand) has a large curvature.
    """
    # The curvature of ln(integrand) is at least 1, so ln(integrand) has dropped by r²/2 at a distance r from its mode.
    # The slope differs by at most `shift` for a neighbour, whose mode is therefore at most `shift` away.
    reach = np.sqrt(2 * _DROP) + shift
    first = np.floor((_gaussian_modes(histograms) - reach) / _CELL).astype(np.int64)
    index = first[:, :, None] + np.arange(int(np.ceil(2 * reach / _CELL)) + 1)
    lowest = index.min()
    span = int(index.max() - lowest) + 1
    row, cell = np.divmod(np.unique(np.arange(len(index))[:, None, None] * span + index - lowest), span)
    low = (cell + lowest) * _CELL
    distance = (low - _CELL / 2 - shift)[:, None] - histograms.values[row]
    # At most 1 plus the curvature of the distribution functions, a bound that decreases in x.
    curvature = 1 + np.sum(histograms.multiplicity[row] * _curvature(distance, hazard(distance)), axis=1)
    parts = np.ceil(np.sqrt(curvature / 10)).astype(np.int64)
    place = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    width = np.repeat(_CELL / parts, parts)
    begin = np.repeat(low, parts) + place * width
    return Panels(np.repeat(row, parts), begin, begin + width)


def _curvature(distance: Array, slope: Array) -> Array:
    """Return −(ln Φ)″ at `distance`, where `slope` is (ln Φ)′ and Φ the normal distribution function."""
    return np.where(distance < -1e3, 1.0, slope * (distance + slope))  # the limit, where the formula would cancel


def _gaussian_modes(histograms: Histograms) -> Array:
    """Return, per distinct count, the mode of the integrand of Pr[class wins], (queries × distinct counts)."""
    values = histograms.values
    others = histograms.multiplicity[:, None, :] - np.eye(values.shape[1])
    x = values
    # The slope of ln(integrand) is convex and decreasing, so Newton's steps from the class's count never overshoot.
    for _ in range(8):
        distance = x[:, :, None] - values[:, None, :]
        slope = hazard(distance)
        bends = others * _curvature(distance, slope)
        x = x + (values - x + np.sum(others * slope, axis=2)) / (1 + np.sum(bends, axis=2))
    return x


@panels.register
def _(noise: Laplace, histograms: Histograms, shift: float = 0.0) -> Panels:
    """Return integration intervals between successive counts, above the largest and below the smallest count."""
    values, classes = histograms.values, int(histograms.multiplicity[0].sum())
    top = np.full((len(values), 1), _DROP + np.log(classes))
    low = np.hstack([values, values[:, -1:] - _DROP])
    length = np.hstack([top, values]) - low
    # Between counts the integrand is smooth and does not decrease; above all it decreases like e⁻ˣ. Intervals are cut
    # off where it is low enough, also for a neighbour, whose integrand differs by a factor of at most e^{2·shift}.
    with np.errstate(divide="ignore", over="ignore"):
        steep = _DROP / _laplace_slope(histograms)
    start = np.where(steep < length, length - steep, 0.0)
    # Split where counts of a neighbour lie, and where the distribution functions of the counts below still bend.
    bends = [np.full_like(length, at) for at in (shift, *_BENDS)]
    bent = np.where(classes * length > 10, np.minimum(steep, length) / 4, 0.0)
    falls = [length - at for at in (bent, _DROP, _DROP / 4, shift, 0.0)]
    edges = np.clip(np.stack([start, *bends, *falls], axis=2), start[:, :, None], length[:, :, None])
    edges = low[:, :, None] + np.sort(edges, axis=2)
    begin, end = edges[:, :, :-1], edges[:, :, 1:]
    row, stretch, piece = np.nonzero(end - begin > 1e-15 * np.maximum(1.0, -begin))
    return Panels(row, begin[row, stretch, piece], end[row, stretch, piece])


def _laplace_slope(histograms: Histograms) -> Array:
    """Return approximate slopes of ln(integrand) of the integrals Pr[class wins], (queries, 1 + distinct counts).

    Column i ≥ 1 contains the slope just below the i-th largest distinct count. This slope differs between classes, and
    the smallest slope over all classes is returned. Column 0 contains 0.
    """
    values, multiplicity = histograms.values, histograms.multiplicity
    above = np.cumsum(multiplicity, axis=1)
    tail = np.exp(-np.abs(values[:, :, None] - values[:, None, :]))
    curve = np.triu(tail / (2 - tail), 1)
    slope = above - 1 + np.sum(curve * multiplicity[:, None, :], axis=2)
    return np.hstack([np.zeros((len(values), 1)), slope])
