"""Hold votes with weights: each private record adds one weight per query to the counts of the class that is its label.

The squared norm of a teacher's votes is limited, so that the table of all votes changes by a limited distance if the
teacher is replaced (`accounting/sparse.py`). Weights are integers in units of 1/UNIT, so that discrete noise protects
them exactly and sums do not depend on their order.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError

#: Number of units in a weight of one vote.
UNIT = 1 << 12

#: Relative margin by which scaled weights stay below their limit, larger than any rounding error.
_MARGIN = 1e-9

#: Largest squared norm of a teacher's votes, whatever the limit: floating point is exact up to it.
_LARGEST_SQUARE = 1 << 53


@dataclass(frozen=True, eq=False)
class WeightedVotes:
    """Weighted votes of an ensemble. Create with `WeightedVotes.of`, which checks its input.

    Parameters
    ----------
    weights : (rows, queries) int array
        Weights in units of 1/UNIT; they may be negative. A teacher has at most one row per label.
    labels, teachers : (rows,) int arrays
        Label and teacher of each row.
    """

    weights: NDArray[np.integer]
    labels: NDArray[np.integer]
    teachers: NDArray[np.integer]

    @classmethod
    def of(
        cls, weights: NDArray[np.integer], labels: NDArray[np.integer], teachers: NDArray[np.integer], classes: int
    ) -> Self:
        """Create votes of rows that may repeat a teacher's label; rows of the same teacher and label are added."""
        rows = (len(weights),)
        if weights.ndim != 2 or weights.dtype.kind != "i" or labels.shape != rows or teachers.shape != rows:
            raise PatebenchError(
                f"weights have shape {weights.shape} and dtype {weights.dtype}; integers, rows × queries, are needed, "
                "with one label and one teacher per row"
            )
        if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
            raise PatebenchError(f"labels of weighted votes must be from 0 to {classes - 1}")
        key = teachers.astype(np.int64) * classes + labels
        distinct, row = np.unique(key, return_inverse=True)
        if len(distinct) == len(key):
            return cls(weights, labels, teachers)
        sums = np.zeros((len(distinct), weights.shape[1]), dtype=np.int64)
        np.add.at(sums, row, weights)
        return cls(sums, distinct % classes, distinct // classes)

    def limited(self, most: float) -> Self:
        """Return the votes, scaled down for each teacher whose squared norm exceeds `most`.

        A single vote of weight 1 has norm 1. The result of a teacher depends on its own rows alone.
        """
        limit = min(int(most) * UNIT**2, _LARGEST_SQUARE)
        teachers, row = np.unique(self.teachers, return_inverse=True)
        squares = np.bincount(row, np.square(self.weights, dtype=np.float64).sum(axis=1), len(teachers))
        if not (squares > limit).any():
            return self
        factor = np.where(squares > limit, np.sqrt(limit / np.maximum(squares, 1)) * (1 - _MARGIN), 1.0)[row]
        return replace(self, weights=np.trunc(self.weights * factor[:, None]).astype(self.weights.dtype))

    def table(self, classes: int) -> NDArray[np.int64]:
        """Return the sum of all votes (queries, classes), in units of 1/UNIT."""
        columns = [self.weights[self.labels == label].sum(axis=0, dtype=np.int64) for label in range(classes)]
        return np.stack(columns, axis=1)

    def at(self, queries: slice | NDArray[np.integer]) -> Self:
        """Return the votes on some of the queries, in that order."""
        return replace(self, weights=self.weights[:, queries])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the rows as named arrays, as files of the kinds CHUNK and VOTES contain them."""
        weights = self.weights.astype(np.min_scalar_type(-max(1, int(np.abs(self.weights).max(initial=0)))))
        return {"weights": weights, "row_labels": self.labels, "row_teachers": self.teachers}


def quantised(vectors: NDArray[np.floating]) -> NDArray[np.int16]:
    """Return vectors of at most unit length in units of 1/UNIT, rounded towards zero so that none becomes longer."""
    return np.trunc(np.asarray(vectors, dtype=np.float64) * UNIT).astype(np.int16)
