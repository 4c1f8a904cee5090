"""Compute the votes of private records on queries from public features, without trained teachers.

Each query is a sample of the public pool. The centre of a query is the mean of the pool's samples that are nearer to
this query than to any other query (`centres`). The cell of a query contains the samples that are nearer to the centre
of this query than to any other centre. Centres and cells do not depend on labels.

With the model `nearest-query`, a private record votes with its own label on one query, in whose cell the record is, or
on several nearest queries. A teacher's vote on a query is the most frequent label among the teacher's records that vote
on this query. If there are no such records, the teacher abstains.

With the model `feature-votes`, a private record votes with its own label on all queries, with one weight per query
(`Directions`). A weight measures how similar the features of the record and of the query are. The weights on q queries
are computed in four steps:

1. The pool's mean is subtracted from the record's features, and the result is projected on the first q − 1 principal
   axes of the pool.
2. The projection is scaled to a common length.
3. A constant is appended, so that the number of records of each class can be computed from the sum of their weights.
4. An orthogonal matrix turns the q numbers into one weight per query. The matrix is chosen such that a record with the
   features of a query has a large weight on this query (orthogonal Procrustes problem; Schönemann 1966).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import ABSTAINED, UNIT, quantised
from patebench.core.blocks import blocks
from patebench.core.errors import PatebenchError

Array = NDArray[np.float64]

_GRID = 2.0**20
_CELLS = 1 << 22  # vectors × queries per block

#: Least variance of an axis, relative to the largest one.
_LEAST = 1e-9

#: The constant in a vote of length 1. It takes 1/16 of the squared length.
_CONSTANT = 0.25

#: Length of a vote before it is rounded, slightly below 1.
_LENGTH = 1 - 1e-5


def centres(features: NDArray[np.floating], queries: NDArray[np.integer]) -> Array:
    """Return the centre of each query (queries × features), the mean of the pool's samples nearest to the query.

    Each sample of the pool belongs to one query, the nearest one. `features` (samples × features) are the pool's
    features, and `queries` (queries,) are positions in the pool. Both are public.
    """
    start: Array = np.asarray(features, dtype=np.float64)[queries]
    member = nearest(features, start)
    member[queries] = np.arange(len(queries))  # each query is in its own cell, even if samples are equal
    sums = np.zeros_like(start)
    np.add.at(sums, member, features)
    return sums / np.bincount(member, minlength=len(queries))[:, None]


def nearest(vectors: NDArray[np.floating], centres: Array) -> NDArray[np.intp]:
    """Return the index (samples,) of the nearest of `centres` (queries × features) for each of `vectors`.

    `vectors` is (samples × features). Ties go to the first centre. The result for a vector does not depend on other
    vectors, because coordinates are rounded such that all sums are exact (`on_grid`).
    """
    result = np.empty(len(vectors), dtype=np.intp)
    for rows, distance in _relative_distances(vectors, centres):
        result[rows] = np.argmin(distance, axis=1)
    return result


def squared_distances(vectors: NDArray[np.floating], points: NDArray[np.floating]) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of rows of `vectors`: a slice of consecutive rows, and their squared distances to `points`.

    Distances are (rows, points), in squared units of the grid (`on_grid`).
    """
    for rows, distance in _relative_distances(vectors, points):
        yield rows, distance + np.square(on_grid(vectors[rows])).sum(axis=1)[:, None]


def _relative_distances(vectors: NDArray[np.floating], points: NDArray[np.floating]) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of rows of `vectors`: a slice of consecutive rows, and ‖v − p‖² − ‖v‖² for each row v and point p.

    The differences are (rows, points), in squared units of the grid (`on_grid`). For each row, the smallest difference
    belongs to the nearest point.
    """
    points = on_grid(points)
    square = np.square(points).sum(axis=1)
    for rows in blocks(len(vectors), _CELLS // len(points)):
        yield rows, square - 2 * (on_grid(vectors[rows]) @ points.T)


def queries_voted_on(
    vectors: NDArray[np.floating],
    features: NDArray[np.floating],
    queries: NDArray[np.integer],
    neighbours: int | None = None,
) -> NDArray[np.intp]:
    """Return the indices (samples × neighbours) of the queries on which records with the features `vectors` vote.

    Each row of the result depends only on the features of one record and on public data.

    Parameters
    ----------
    vectors : (samples, features) features of the records
    features : (pool, features) features of the pool
    queries : (queries,) positions of the queries in the pool
    neighbours : number of nearest queries on which each record votes; the result lists them in no particular order.
        None: each record votes on one query, that with the nearest centre (see `centres`)
    """
    if neighbours is None:
        return nearest(vectors, centres(features, queries))[:, None]
    return nearest_several(vectors, features[queries], neighbours)


def nearest_several(vectors: NDArray[np.floating], points: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    """Return the indices (samples × count) of the `count` nearest of `points` for each of `vectors`, unordered.

    `vectors` is (samples × features) and `points` (points × features). Each row of the result depends only on its
    vector and the points, as in `nearest`.
    """
    result = np.empty((len(vectors), count), dtype=np.intp)
    for rows, distance in _relative_distances(vectors, points):
        result[rows] = np.argpartition(distance, count - 1, axis=1)[:, :count]
    return result


def on_grid(vectors: NDArray[np.floating]) -> Array:
    """Round `vectors` to integers in units of 2⁻²⁰; inner products are then exact if vectors have at most length 1."""
    return np.rint(np.asarray(vectors, dtype=np.float64) * _GRID)


def record_votes(
    teacher: NDArray[np.integer],
    query: NDArray[np.integer],
    label: NDArray[np.integer],
    shape: tuple[int, int],
    classes: int,
) -> NDArray[np.integer]:
    """Return the vote matrix (teachers, queries), in which each teacher votes with the labels of its records.

    If several records of a teacher have the same query, the teacher votes for the most frequent label of these records.
    In a tie, the teacher votes for the lowest of the most frequent labels. A teacher without records for a query
    abstains. The votes of a teacher depend only on the records of this teacher.

    Parameters
    ----------
    teacher : (records,) index of the teacher of each record
    query : (records,) index of the query on which each record votes
    label : (records,) label of each record
    shape : numbers of teachers and of queries
    classes : number of classes
    """
    result = np.full(shape, ABSTAINED, dtype=np.min_scalar_type(-classes))
    index = (teacher.astype(np.int64) * shape[1] + query) * classes + label
    cell, times = np.unique(index, return_counts=True)
    ascending = np.lexsort((-cell, times))  # the most frequent label comes last, in a tie the lowest one
    result.reshape(-1)[cell[ascending] // classes] = cell[ascending] % classes
    return result


@dataclass(frozen=True, eq=False)
class Directions:
    """Map from the features of a record to the weights of its votes, one weight per query (model `feature-votes`).

    The map has two steps. First, `along` subtracts `mean` (features,) from the features, computes the coordinates along
    the principal axes `axes` (features, queries − 1), scales them to a common length, and appends a constant. Then the
    orthogonal matrix `rotation` (queries, queries) turns these coordinates into weights. All three arrays contain
    integers in units of 2⁻²⁰, so sums are exact in any order.
    """

    mean: Array
    axes: Array
    rotation: Array

    @classmethod
    def of(cls, features: NDArray[np.floating], queries: NDArray[np.integer]) -> Self:
        """Return the map from features to the weights of votes, learnt from the pool's `features` (samples, features).

        `queries` (queries,) are positions in the pool. For n queries, the pool's features must have at least n − 1
        principal axes with positive variance; otherwise, PatebenchError is raised.
        """
        grid = on_grid(features)
        mean = np.rint(grid.mean(axis=0))
        centred = (grid - mean) / _GRID
        variance, axes = np.linalg.eigh(centred.T @ centred)
        max_queries = int((variance > _LEAST * variance[-1]).sum()) + 1
        if len(queries) > max_queries:
            raise PatebenchError(
                f"votes with weights on {len(queries)} queries need {len(queries) - 1} principal axes, but the "
                f"features of this pool have only {max_queries - 1}; use at most {max_queries} queries",
                code="queries",
            )
        leading_axes = np.rint(axes[:, ::-1][:, : len(queries) - 1] * _GRID)
        unrotated = cls(mean, leading_axes, np.eye(len(queries)) * _GRID)
        left, _, right = np.linalg.svd(unrotated.along(features[queries]))
        return cls(mean, leading_axes, np.rint(right.T @ left.T * _GRID))

    def weights(self, vectors: NDArray[np.floating]) -> NDArray[np.int16]:
        """Return the weights (samples, queries) of the votes of records with `vectors` (samples, features).

        Weights are integers in units of 1/UNIT. Each row depends only on its vector and on public data.
        """
        return quantised(np.rint(self.along(vectors) * _GRID) @ self.rotation / _GRID**2 * _LENGTH)

    def votes(self, vectors: NDArray[np.floating]) -> Array:
        """Return the `weights` of `vectors` as real numbers (samples, queries); each row has an L2 norm ≤ 1."""
        return self.weights(vectors) / UNIT

    def along(self, vectors: NDArray[np.floating]) -> Array:
        """Return coordinates (samples, queries) of `vectors` (samples, features); `rotation` turns them into weights.

        The last coordinate is the constant c = `_CONSTANT`. The others are the coordinates along `axes`, scaled to
        length √(1 − c²), so each row has length 1. If a vector is (almost) equal to `mean`, its row is shorter.
        """
        along = np.rint((on_grid(vectors) - self.mean) @ self.axes / _GRID)
        length = np.sqrt(np.square(along).sum(axis=1, keepdims=True)) / np.sqrt(1 - _CONSTANT**2)
        return np.column_stack([along / np.maximum(length, 1), np.full(len(along), _CONSTANT)])

    @property
    def total(self) -> Array:
        """Return the vector (queries,) whose inner product with the `votes` of any record is 1, up to rounding.

        It counts records: the inner product with the sum of the votes of several records is the number of these
        records.
        """
        return self.rotation[-1] / _GRID / _CONSTANT / _LENGTH
