"""Assign samples to cells: each query is a public sample, and its cell contains the samples with similar features.

A sample belongs to the cell with the nearest mean, or to its several nearest queries. With the model `nearest-query`, a
private record votes with its own label on the query of its cell, or on its several queries. So a shard of one record
has one vote, and a teacher abstains on all queries to which none of its records belongs. The cells do not depend on
labels.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import ABSTAINED

Array = NDArray[np.float64]

_GRID = 2.0**20
_CELLS = 1 << 22  # vectors × queries per block


def centres(features: NDArray[np.floating], queries: NDArray[np.integer]) -> Array:
    """Return the mean of the pool's features in the cell of each query (queries × features).

    `features` (samples × features) are those of the pool, and `queries` (queries,) are positions in the pool; both are
    public.
    """
    start: Array = np.asarray(features, dtype=np.float64)[queries]
    member = nearest(features, start)
    member[queries] = np.arange(len(queries))  # each query is in its own cell, even if samples are equal
    sums = np.zeros_like(start)
    np.add.at(sums, member, features)
    return sums / np.bincount(member, minlength=len(queries))[:, None]


def nearest(vectors: NDArray[np.floating], centres: Array) -> NDArray[np.intp]:
    """Return the index of the nearest of `centres` (queries × features) for each vector (samples × features).

    Ties go to the first centre. Coordinates are rounded to a grid on which every sum is exact in any order, so the
    result for a vector does not depend on other vectors.
    """
    result = np.empty(len(vectors), dtype=np.intp)
    for rows, distance in _distances(vectors, centres):
        result[rows] = np.argmin(distance, axis=1)
    return result


def _distances(vectors: NDArray[np.floating], points: NDArray[np.floating]) -> Iterator[tuple[slice, Array]]:
    """Yield a slice of `vectors` and its squared distances to `points`, block by block.

    Distances are in squared grid units, and differ from the true ones by a constant per vector.
    """
    points = on_grid(points)
    square = np.square(points).sum(axis=1)
    block = max(1, _CELLS // len(points))
    for start in range(0, len(vectors), block):
        rows = slice(start, start + block)
        yield rows, square - 2 * (on_grid(vectors[rows]) @ points.T)


def belong(
    vectors: NDArray[np.floating],
    features: NDArray[np.floating],
    queries: NDArray[np.integer],
    neighbours: int | None = None,
) -> NDArray[np.intp]:
    """Return the indices of the queries to which each vector belongs (samples × neighbours).

    Each row depends only on its vector and on public data.

    Parameters
    ----------
    vectors : (samples, features) array
    features : (pool, features) array of the pool
    queries : (queries,) positions in the pool
    neighbours
        Number of nearest queries, in no order; if None, only the query in whose cell the vector lies.
    """
    if neighbours is None:
        return nearest(vectors, centres(features, queries))[:, None]
    return nearest_several(vectors, features[queries], neighbours)


def nearest_several(vectors: NDArray[np.floating], points: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    """Return the indices of the `count` nearest of `points` (points × features) for each vector, in no order.

    Each row of the result (samples × count) depends only on its vector and the points, as in `nearest`.
    """
    result = np.empty((len(vectors), count), dtype=np.intp)
    for rows, distance in _distances(vectors, points):
        result[rows] = np.argpartition(distance, count - 1, axis=1)[:, :count]
    return result


def on_grid(vectors: NDArray[np.floating]) -> Array:
    """Round vectors of at most unit length to integers in grid units, whose sums of products are below 2⁵³."""
    return np.rint(np.asarray(vectors, dtype=np.float64) * _GRID)


def record_votes(
    teacher: NDArray[np.integer],
    query: NDArray[np.integer],
    label: NDArray[np.integer],
    shape: tuple[int, int],
    classes: int,
) -> NDArray[np.integer]:
    """Return the vote matrix of shape `shape` = (teachers, queries): each teacher votes by its records' labels.

    `teacher`, `query` and `label` (records,) are, for each record, its teacher, the query to which it belongs and its
    label. If several records of a teacher belong to one query, the teacher votes for their most frequent label, or the
    lowest one in a tie. A row depends only on the records of its teacher.
    """
    result = np.full(shape, ABSTAINED, dtype=np.min_scalar_type(-classes))
    index = (teacher.astype(np.int64) * shape[1] + query) * classes + label
    cell, times = np.unique(index, return_counts=True)
    ascending = np.lexsort((-cell, times))  # the most frequent label comes last, in a tie the lowest one
    result.reshape(-1)[cell[ascending] // classes] = cell[ascending] % classes
    return result
