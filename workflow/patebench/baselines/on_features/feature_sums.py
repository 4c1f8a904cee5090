"""Sum vectors of private records exactly.

The coordinates of a vector are rounded to a grid, towards zero, so its length stays at most 1. In grid units, all
coordinates are integers, so sums of vectors and sums of their products are exact in any order. Adding or removing a
record therefore changes a sum by exactly the term of this record, without rounding errors.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from patebench.core.blocks import blocks

Array = NDArray[np.float64]
#: Vectors (samples, features) in grid units, which single precision holds exactly.
Units = NDArray[np.float32]

#: Number of grid units in a length of 1. A product of two coordinates is at most 2³², and integers below 2⁵³ are exact,
#: so sums of products are exact for up to 2²¹ records.
UNIT = 2.0**16
#: Number of units in a length of 1 on the finer grid to which coordinates are rounded before vectors are clipped.
_FINE = 2.0**20

#: Relative margin below length 1, larger than any rounding error.
_MARGIN = 1e-9

BLOCK = 1 << 12  # samples per block, which bounds memory


def clipped(vectors: NDArray[np.floating], length: float = 1.0, unit: float = UNIT) -> Array:
    """Clip `vectors` (samples, features) to the L2 norm `length` ≤ 1; return them as integers in units of 1/`unit`.

    Coordinates are rounded towards zero. The result for one vector does not depend on the other vectors, not even by
    rounding.
    """
    fine = np.rint(np.asarray(vectors, dtype=np.float64) * _FINE)
    norms = np.sqrt(np.square(fine).sum(axis=1)) / _FINE
    fine *= (unit / _FINE * length * (1 - _MARGIN) / np.maximum(norms, length))[:, None]
    return np.trunc(fine, out=fine)


@dataclass(frozen=True, eq=False)
class Scaling:
    """Public map from features to vectors of at most unit length.

    The pool's `mean` is subtracted from the features. The differences are projected on `axes` (features, dimensions)
    unless `axes` is None, divided by `length`, and clipped to the L2 norm 1.

    With `constant` c > 0, vectors are scaled to at most length √(1 − c²), and c is appended as a last coordinate. The
    last coordinates of several vectors then add up to c times the number of vectors.
    """

    mean: Array
    axes: Array | None
    length: float
    constant: float = 0.0

    @classmethod
    def of(cls, pool: Array, dimensions: int | None = None, constant: float = 0.0) -> Self:
        """Return the map learnt from the features `pool` (samples, features) of the public pool.

        Its `length` is the median length of the projected features, so half of the pool's vectors are clipped. The axes
        are the first `dimensions` principal axes of the pool. If `dimensions` is None, nothing is projected.
        """
        mean, axes = pool.mean(axis=0), None
        if dimensions is not None:
            _, axes = np.linalg.eigh((pool - mean).T @ (pool - mean))
            axes = np.rint(axes[:, ::-1][:, :dimensions] * _FINE)
        plain = cls(mean, axes, 1.0, constant)
        return replace(plain, length=max(float(np.median(np.linalg.norm(plain.along(pool), axis=1))), 1e-12))

    def along(self, features: Array) -> Array:
        """Return the coordinates (samples, dimensions) of `features` (samples, features) along the axes `axes`.

        The pool's `mean` is subtracted first. Scalar products with the axes are exact, since both factors are rounded
        to integers on a fine grid. If `axes` is None, only `mean` is subtracted.
        """
        if self.axes is None:
            return features - self.mean
        along: Array = np.rint((features - self.mean) * _FINE) @ self.axes
        along /= _FINE**2
        return along

    def units(self, features: Array) -> Units:
        """Map `features` (samples, features) to vectors of at most unit length, as integers in units of 1/`UNIT`.

        The result is (samples, dimensions), or (samples, dimensions + 1) if `constant` is positive. Each vector depends
        on its own sample alone.
        """
        share = float(np.sqrt(1 - self.constant**2))
        dimensions = features.shape[1] if self.axes is None else self.axes.shape[1]
        units = np.full((len(features), dimensions + (self.constant > 0)), np.trunc(self.constant * UNIT), np.float32)
        for rows in blocks(len(features), BLOCK):
            units[rows, :dimensions] = clipped(self.along(features[rows]) * (share / self.length), share)
        return units


def class_sums(units: Units, labels: NDArray[np.integer], classes: int) -> Array:
    """Return the sum of the vectors of each class (features, classes), as real numbers.

    `units` (samples, features) are the vectors, whose coordinates are integers in units of 1/`UNIT`, and `labels`
    (samples,) their classes.
    """
    total = np.zeros((units.shape[1], classes))
    for rows in blocks(len(units), BLOCK):
        total += units[rows].astype(np.float64).T @ (labels[rows, None] == np.arange(classes)).astype(np.float64)
    return total / UNIT


def outer_sums(units: Units) -> Array:
    """Return Σ v vᵀ (features, features) over the rows v of `units` (samples, features), as real numbers.

    The coordinates in `units` are integers in units of 1/`UNIT`.
    """
    total = np.zeros(2 * (units.shape[1],))
    for rows in blocks(len(units), BLOCK):
        part = units[rows].astype(np.float64)
        total += part.T @ part
    return total / UNIT**2


def to_coordinates(symmetric: Array) -> Array:
    """Return the matrix `symmetric` as a vector: its diagonal, then √2 times the entries above the diagonal.

    The vector's L2 norm is the matrix's Frobenius norm.
    """
    upper = np.triu_indices(len(symmetric), 1)
    return np.concatenate([symmetric.diagonal(), np.sqrt(2) * symmetric[upper]])


def from_coordinates(vector: Array, size: int) -> Array:
    """Return the symmetric matrix (size, size) that `to_coordinates` maps to `vector`."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = vector[size:] / np.sqrt(2)
    return matrix + matrix.T + np.diag(vector[:size])
