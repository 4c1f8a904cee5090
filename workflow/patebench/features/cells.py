"""Cells of public features: each query is a sample of the pool and stands for the samples nearest to it.

Any other sample belongs to the cell whose mean it is nearest to, or to its several nearest queries. A private record
votes there with its own label (the model `nearest-query`), so a shard of one record has one vote, and a teacher
abstains on all queries that no record of its own belongs to. Labels play no part in the cells.
"""

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import SILENT

Array = NDArray[np.float64]

_GRID = 2.0**20
_CELLS = 1 << 22  # of one block of vectors × queries


def centres(features: NDArray[np.floating], queries: NDArray[np.integer]) -> Array:
    """Return what each query stands for (queries × features): the mean of the pool's `features` (samples × features)
    there.

    The queries are positions in the pool. A function of public values alone.
    """
    start: Array = np.asarray(features, dtype=np.float64)[queries]
    member = nearest(features, start)
    member[queries] = np.arange(len(queries))  # of equal samples, each is its own
    sums = np.zeros_like(start)
    np.add.at(sums, member, features)
    return sums / np.bincount(member, minlength=len(queries))[:, None]


def nearest(vectors: NDArray[np.floating], centres: Array) -> NDArray[np.intp]:
    """Return the number of the nearest of `centres` (queries × features) for each vector (samples × features).

    The first one of equally near ones. Coordinates are rounded to a grid on which every sum below is exact, in
    whatever order it is made: so a vector's place among others does not move it.
    """
    result = np.empty(len(vectors), dtype=np.intp)
    centres = on_grid(centres)
    square = np.square(centres).sum(axis=1)
    block = max(1, _CELLS // len(centres))
    for start in range(0, len(vectors), block):
        part = on_grid(vectors[start : start + block])
        result[start : start + block] = np.argmin(square - 2 * (part @ centres.T), axis=1)
    return result


def belong(
    vectors: NDArray[np.floating],
    features: NDArray[np.floating],
    queries: NDArray[np.integer],
    neighbours: int | None = None,
) -> NDArray[np.intp]:
    """Return the queries' numbers (samples × neighbours) that each vector (samples × features) belongs to.

    Without `neighbours` that is one, in whose cell it lies. With it, that many of them in no order, those whose own
    features are nearest, where `features` are the pool's and `queries` positions there. A row of the result follows
    from that vector and from what is public alone.
    """
    if neighbours is None:
        return nearest(vectors, centres(features, queries))[:, None]
    return nearest_several(vectors, features[queries], neighbours)


def nearest_several(vectors: NDArray[np.floating], points: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    """Return the numbers of the `count` nearest of `points` (points × features) for each vector, in no order.

    Each row (of samples × count) follows from that vector and the points alone, as in `nearest`.
    """
    result = np.empty((len(vectors), count), dtype=np.intp)
    points = on_grid(points)
    square = np.square(points).sum(axis=1)
    block = max(1, _CELLS // len(points))
    for start in range(0, len(vectors), block):
        distance = square - 2 * (on_grid(vectors[start : start + block]) @ points.T)
        result[start : start + block] = np.argpartition(distance, count - 1, axis=1)[:, :count]
    return result


def on_grid(vectors: NDArray[np.floating]) -> Array:
    """Return vectors of at most unit length as multiples of the grid: integers whose sums of products are below 2⁵³."""
    return np.rint(np.asarray(vectors, dtype=np.float64) * _GRID)


def record_votes(
    teacher: NDArray[np.integer],
    query: NDArray[np.integer],
    label: NDArray[np.integer],
    shape: tuple[int, int],
    classes: int,
) -> NDArray[np.integer]:
    """Return the vote matrix (teachers, queries) of `shape`, from the teacher, query and label (records,) of each
    record.

    Where several records of a teacher belong to one query, it votes for their most frequent label, the lowest of tied
    ones. A row depends on the records of that teacher alone.
    """
    result = np.full(shape, SILENT, dtype=np.min_scalar_type(-classes))
    place = (teacher.astype(np.int64) * shape[1] + query) * classes + label
    cell, times = np.unique(place, return_counts=True)
    ascending = np.lexsort((-cell, times))  # of each query the most frequent label comes last, of tied ones the lowest
    result.reshape(-1)[cell[ascending] // classes] = cell[ascending] % classes
    return result
