"""Outcome distributions of histograms and of their neighbours, for the exact accountants.

A histogram is the vote counts of one query. A neighbour of a histogram has one vote less in one class and one vote more
in another class. Classes with equal counts have the same rank and the same probability of being the label. One
neighbour per pair of ranks therefore represents all neighbours.

If one vote is small compared with the noise, all neighbours of a histogram are integrated on the same quadrature nodes.
At a node, moving a vote multiplies the distribution functions of two classes by known factors. The integrals of all
neighbours are then matrix products. If the noise is smaller, each neighbour is computed separately.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.exact import Pairs
from patebench.accounting.logspace import Array, log1mexp, logsumexp
from patebench.accounting.votes import Counts, multiplicities, ranks
from patebench.core.blocks import blocks
from patebench.mechanisms.noise import Noise
from patebench.mechanisms.quadrature import (
    LOG_WEIGHTS,
    NODES,
    Histograms,
    Panels,
    group_by_ranks,
    log_argmax_probabilities,
    panels,
)

Integers = NDArray[np.int64]

#: Largest ln of the factor by which one vote changes a term of the quadrature on shared nodes. The product of two such
#: factors is far from overflow.
_LARGEST_FACTOR = 300.0

#: Upper bound on the distance of quadrature nodes below the smallest count, in noise scales. It is valid for Gaussian
#: noise. For Laplace noise, `Noise.steepest` does not depend on the distance.
_BEYOND = 20.0

#: Maximum of histograms × nodes × ranks per batch, and approximate number of nodes of a histogram divided by √classes.
_CELLS, _USUAL_NODES = 1 << 17, 80
#: Maximum number of neighbours per batch, and maximum of neighbours × outcomes.
_PAIRS, _NUMBERS = 1 << 13, 1 << 20


def of_noisy_argmax(counts: Counts, noise: Noise) -> Iterator[Pairs]:
    """Yield the outcome distributions of argmax(counts + noise) for histograms and all their neighbours.

    An outcome is the class that wins. Classes with equal probabilities may share a column; `Pairs.multiplicity` is
    their number.

    Parameters
    ----------
    counts : (histograms, classes) counts in descending order
    """
    shift = 1 / noise.scale
    rank = ranks(counts)
    spread = (counts[:, 0] - counts[:, -1]).astype(np.float64)
    with np.errstate(over="ignore"):
        factor = shift * noise.steepest(shift * spread + _BEYOND)
    small = (shift <= 1) & (factor <= _LARGEST_FACTOR)
    nodes = int(_USUAL_NODES * np.sqrt(counts.shape[1]))
    for rows in group_by_ranks(np.flatnonzero(small), rank, lambda r: min(_CELLS // (nodes * r), _NUMBERS // r**3)):
        yield _pairs_on_shared_nodes(rows, counts[rows], rank[rows], noise)
    yield from one_by_one(counts, lambda table: log_argmax_probabilities(table, noise), np.flatnonzero(~small))


def one_by_one(
    counts: Counts, log_probabilities: Callable[[Counts], Array], rows: Integers | None = None
) -> Iterator[Pairs]:
    """Yield the outcome distributions of histograms and all their neighbours; each neighbour is computed separately.

    Parameters
    ----------
    counts : (histograms, classes) counts in descending order
    log_probabilities : function of histograms that returns ln P of each outcome (histograms × outcomes)
    rows : indices of the histograms to use; None: all
    """
    rank = ranks(counts)
    size = min(_PAIRS, _NUMBERS // counts.shape[1])
    for portion in group_by_ranks(np.arange(len(counts)) if rows is None else rows, rank, lambda r: size // r**2):
        histograms, multiplicity = counts[portion], multiplicities(rank[portion])
        row, loses, gains = _list_changes(multiplicity, histograms[:, -1])
        log_p = log_probabilities(histograms)
        for block in blocks(len(row), size):
            one, less, more = row[block], loses[block], gains[block]
            log_p_neighbour = log_probabilities(_apply_changes(histograms[one], multiplicity[one], less, more))
            once = np.ones(log_p_neighbour.shape, dtype=np.int64)
            yield Pairs(portion[one], less, more, log_p[one], log_p_neighbour, once)


def _list_changes(multiplicity: Integers, smallest_count: Counts) -> tuple[Integers, Integers, Integers]:
    """Return all neighbours as three arrays (neighbours,): histogram, rank that loses a vote and rank that gains it.

    Classes with equal counts have the same rank. One neighbour per pair of ranks is returned, since other classes of
    these ranks give equivalent neighbours. `multiplicity` (histograms × ranks) is the number of classes with each rank.
    `smallest_count` (histograms,) is the smallest count of each histogram: a class without votes cannot lose one.
    """
    exists = np.ones((*multiplicity.shape, multiplicity.shape[1]), dtype=bool)
    exists[smallest_count == 0, -1] = False
    same = np.arange(multiplicity.shape[1])
    exists[:, same, same] &= multiplicity >= 2
    histogram, loses, gains = np.nonzero(exists)
    return histogram, loses, gains


def _apply_changes(counts: Counts, multiplicity: Integers, loses: Integers, gains: Integers) -> Counts:
    """Return `counts` with one vote in each row moved from a class of rank `loses` to a class of rank `gains`.

    `multiplicity` (rows × ranks) is the number of classes of each rank.
    """
    result, rows = counts.copy(), np.arange(len(counts))
    after = np.cumsum(multiplicity, axis=1)
    # The last class of a rank loses a vote and the first gains one, so that counts stay in descending order.
    result[rows, after[rows, loses] - 1] -= 1
    result[rows, after[rows, gains] - multiplicity[rows, gains]] += 1
    return result


def _pairs_on_shared_nodes(index: Integers, counts: Counts, rank: Integers, noise: Noise) -> Pairs:
    """Return the outcome distributions of the histograms `counts` and of all neighbours, on the same quadrature nodes.

    An outcome is the class that wins. There is one column per rank (distinct count) for the classes whose counts do not
    change, one for the class that loses a vote, and one for the class that gains it. The field `histogram` of the
    result contains numbers from `index` (histograms,), one number for each row of `counts`.
    """
    histograms = Histograms.of(counts.astype(np.float64), rank, noise.scale)
    own, other = _integrals(histograms, noise)
    row, loses, gains = _list_changes(histograms.multiplicity, counts[:, -1])
    rows, same = np.arange(len(row)), np.ones((len(row), 2), dtype=np.int64)
    unchanged = histograms.multiplicity[row]
    unchanged[rows, loses] -= 1
    unchanged[rows, gains] -= 1
    multiplicity = np.hstack([unchanged, same])
    log_p = np.hstack([own[row], own[row, loses, None], own[row, gains, None]])
    log_p, log_p_neighbour = (
        refine_near_certain(table, multiplicity) for table in (log_p, other[row, :, loses, gains])
    )
    return Pairs(index[row], loses, gains, log_p, log_p_neighbour, multiplicity)


def _integrals(histograms: Histograms, noise: Noise) -> tuple[Array, Array]:
    """Return ln Pr of the outcomes of the histograms, and ln Pr of the outcomes of all their neighbours.

    Returns
    -------
    (histograms, ranks) array
        ln Pr[class wins] for one class of each rank.
    (histograms, outcomes, ranks, ranks) array
        ln Pr[class wins] in each neighbour: for one unchanged class of each rank, then for the class that loses a vote,
        then for the class that gains it. Axis 2 is the rank that loses a vote, and axis 3 the rank that gains it.
    """
    shift, number = 1 / noise.scale, histograms.values.shape[1]
    x, log_weights = _nodes_and_weights(panels(noise, histograms, shift), len(histograms.values))
    distance = x[:, :, None] - histograms.values[:, None, :]
    below = noise.log_distribution(distance)
    everyone = np.sum(below * histograms.multiplicity[:, None, :], axis=2) + log_weights
    others = everyone[:, :, None] - below
    less = np.exp(noise.log_distribution(distance + shift) - below)
    more = np.exp(noise.log_distribution(distance - shift) - below)
    stays, top = _scale_terms(others + noise.log_density(distance))
    one_less, top_less = _scale_terms(others + noise.log_density(distance + shift))
    one_more, top_more = _scale_terms(others + noise.log_density(distance - shift))
    result = np.empty((len(x), number + 2, number, number))
    for loses in range(number):
        result[:, :-2, loses] = _sum_products(stays * less[:, :, loses, None], more)
    result[:, -2], result[:, -1] = _sum_products(one_less, more), _sum_products(less, one_more)
    with np.errstate(divide="ignore"):
        own, result = np.log(np.sum(stays, axis=1)) + top, np.log(result)
    result[:, :-2] += top[:, :, None, None]
    result[:, -2] += top_less[:, :, None]
    result[:, -1] += top_more[:, None, :]
    return own, result


def _nodes_and_weights(intervals: Panels, queries: int) -> tuple[Array, Array]:
    """Return quadrature nodes and ln of their weights, (queries × nodes) each.

    Rows with fewer intervals than others are filled up with nodes of weight 0.
    """
    panels_per_row = np.bincount(intervals.row, minlength=queries)
    place = np.arange(len(intervals.row)) - np.repeat(np.cumsum(panels_per_row) - panels_per_row, panels_per_row)
    low, width = np.zeros((2, queries, panels_per_row.max()))
    low[intervals.row, place], width[intervals.row, place] = intervals.low, intervals.high - intervals.low
    with np.errstate(divide="ignore"):
        log_weights = np.log(width)[:, :, None] + LOG_WEIGHTS
    x = low[:, :, None] + width[:, :, None] * NODES
    return x.reshape(queries, -1), log_weights.reshape(queries, -1)


def _scale_terms(log_terms: Array) -> tuple[Array, Array]:
    """Return exp(`log_terms` − m) and m, the maximum of `log_terms` over the nodes (axis 1)."""
    top = np.max(log_terms, axis=1)
    return np.exp(log_terms - top[:, None, :]), top


def _sum_products(left: Array, right: Array) -> Array:
    """Return Σ_x left[h, x, i]·right[h, x, j] over the nodes x, as an array (h, i, j)."""
    return np.matmul(np.swapaxes(left, 1, 2), right)


def refine_near_certain(log_p: Array, multiplicity: Integers) -> Array:
    """Return `log_p` (rows, outcomes), which is ln Pr, with more precise values for outcomes that are nearly certain.

    If the likeliest outcome of a row has a probability above 1 − 1/e, this probability is recomputed as 1 minus the sum
    of all others. `multiplicity` (rows, outcomes) is the number of equally likely outcomes that an entry represents.
    """
    rows = np.arange(len(log_p))
    winner = np.argmax(np.where(multiplicity > 0, log_p, -np.inf), axis=1)
    times = multiplicity.copy()
    times[rows, winner] -= 1
    with np.errstate(divide="ignore"):
        others = logsumexp(log_p + np.log(times))
    result = log_p.copy()
    result[rows, winner] = np.where(others < -1, log1mexp(np.minimum(others, 0.0)), log_p[rows, winner])
    return result
