"""Weights of a record's vote on each query: the similarity of their public features, minus what all queries share.

A vote consists of the sample's centred features along the first principal axes of the pool, scaled to a common length,
and of a constant, from which the number of records per class follows. These numbers, as many as there are queries, are
rotated (orthogonal Procrustes problem; Schönemann 1966), so that each belongs to one query. Noise of equal variance in
all directions is the same after a rotation, so the rotation changes no information.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.weighted_votes import quantised
from patebench.core.errors import PatebenchError
from patebench.features.cells import on_grid

Array = NDArray[np.float64]

_GRID = 2.0**20

#: Least variance of an axis, relative to the largest one.
_LEAST = 1e-9

#: The constant in a vote of length 1. It takes 1/16 of the squared length.
_CONSTANT = 0.25

#: Length of a vote before it is rounded, slightly below 1.
_LENGTH = 1 - 1e-5


@dataclass(frozen=True, eq=False)
class Directions:
    """Map from feature vectors to weights on queries, in grid units: integers, whose sums are exact in any order.

    `mean` (features,) is subtracted from a vector, `axes` (features, queries − 1) are principal axes, and `rotation`
    (queries, queries) maps the numbers along the axes and the constant to weights.
    """

    mean: Array
    axes: Array
    rotation: Array

    @classmethod
    def of(cls, features: NDArray[np.floating], queries: NDArray[np.integer]) -> Self:
        """Compute the directions of `queries` (queries,), positions in the pool with `features` (samples, features).

        Raises PatebenchError if the features have too few principal axes.
        """
        grid = on_grid(features)
        mean = np.rint(grid.mean(axis=0))
        centred = (grid - mean) / _GRID
        variance, axes = np.linalg.eigh(centred.T @ centred)
        most = int((variance > _LEAST * variance[-1]).sum()) + 1
        if len(queries) > most:
            raise PatebenchError(
                f"votes with weights on {len(queries)} queries need {len(queries) - 1} principal axes, and the "
                f"features of this pool have {most - 1}; use at most {most} queries",
                code="queries",
            )
        kept = np.rint(axes[:, ::-1][:, : len(queries) - 1] * _GRID)
        flat = cls(mean, kept, np.eye(len(queries)) * _GRID)
        left, _, right = np.linalg.svd(flat.along(features[queries]))
        return cls(mean, kept, np.rint(right.T @ left.T * _GRID))

    def weights(self, vectors: NDArray[np.floating]) -> NDArray[np.int16]:
        """Return the weights (samples, queries) of vectors (samples, features), in units of 1/UNIT.

        Each row depends only on its vector and on public data.
        """
        return quantised(np.rint(self.along(vectors) * _GRID) @ self.rotation / _GRID**2 * _LENGTH)

    def along(self, vectors: NDArray[np.floating]) -> Array:
        """Return vectors (samples, queries): the features along the axes, scaled to a common length, and a constant."""
        along = np.rint((on_grid(vectors) - self.mean) @ self.axes / _GRID)
        length = np.sqrt(np.square(along).sum(axis=1, keepdims=True)) / np.sqrt(1 - _CONSTANT**2)
        return np.column_stack([along / np.maximum(length, 1), np.full(len(along), _CONSTANT)])

    @cached_property
    def total(self) -> Array:
        """Weights (queries,) of the rows of a table, whose weighted sum is the number of records per class."""
        direction: Array = self.rotation[-1] / _GRID / _CONSTANT / _LENGTH
        return direction
