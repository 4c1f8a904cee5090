"""Sum vectors of private records exactly, and add noise.

Vectors are integers on a grid, cut towards zero, so their length stays at most 1, and sums of them and of their
products are exact in any order. A sum therefore changes by the vectors of the changed record alone, without rounding.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Grid units in a length of 1. Sums of products are exact below 2⁵³, so for 2²¹ records.
UNIT = 2.0**16

#: Relative margin below length 1, larger than any rounding error.
_MARGIN = 1e-9

#: Finer units of coordinates before vectors are clipped.
_FINE = 2.0**20

_BLOCK = 1 << 13  # records per block


def on_unit_grid(vectors: NDArray[np.floating], length: float = 1.0) -> Array:
    """Clip vectors (samples, features) to `length` ≤ 1, each alone, and return them in grid units, cut towards zero.

    Squared lengths are sums of integers, so a vector does not depend on its place among others, not even by rounding.
    """
    fine = np.rint(np.asarray(vectors, dtype=np.float64) * _FINE)
    norms = np.sqrt(np.square(fine).sum(axis=1)) / _FINE
    factor = UNIT / _FINE * length * (1 - _MARGIN) / np.maximum(norms, length)
    cut: Array = np.trunc(fine * factor[:, None])
    return cut


@dataclass(frozen=True, eq=False)
class Scaling:
    """Public map from features to vectors of at most unit length.

    Features minus the pool's `mean` are projected on `axes` (features, dimensions), divided by a `length`, and clipped.

    With `constant` c > 0, each vector has one more coordinate, c, and the others have at most length √(1 − c²). Their
    sums by class are then c times the number of records of that class. If one record of a class replaces another one,
    c cancels.
    """

    mean: Array
    axes: Array
    length: float
    constant: float = 0.0

    @classmethod
    def of(cls, pool: NDArray[np.floating], dimensions: int | None = None, constant: float = 0.0) -> Self:
        """Learn the map from the features (samples, features) of the pool; half of these are clipped.

        The axes are the first `dimensions` principal axes of the pool; all of them if None.
        """
        pool = np.asarray(pool, dtype=np.float64)
        centred = pool - pool.mean(axis=0)
        _, axes = np.linalg.eigh(centred.T @ centred)
        axes = np.rint(axes[:, ::-1][:, :dimensions] * _FINE)
        plain = cls(pool.mean(axis=0), axes, 1.0, constant)
        return replace(plain, length=max(float(np.median(np.linalg.norm(plain.along(pool), axis=1))), 1e-12))

    def along(self, features: NDArray[np.floating]) -> Array:
        """Return features (samples, features) along the axes (samples, dimensions), by exact sums of integers."""
        centred: Array = np.rint((features - self.mean) * _FINE) @ self.axes / _FINE**2
        return centred

    def units(self, features: NDArray[np.floating]) -> Array:
        """Return the vectors of features (samples, features) in grid units; each follows from its sample alone."""
        share = float(np.sqrt(1 - self.constant**2))
        vectors = on_unit_grid(self.along(features) * (share / self.length), share)
        if not self.constant:
            return vectors
        return np.column_stack([vectors, np.full(len(vectors), np.trunc(self.constant * UNIT))])


def class_sums(units: Array, labels: NDArray[np.integer], classes: int) -> Array:
    """Return the sum of the vectors of each class (features, classes), for vectors `units` in grid units."""
    of_class: Array = (labels[:, None] == np.arange(classes)).astype(np.float64)
    total: Array = units.T @ of_class / UNIT
    return total


def outer_sums(units: Array) -> Array:
    """Return the sum of v·v' (features, features) over all vectors v, for vectors `units` in grid units."""
    total = np.zeros(2 * (units.shape[1],))
    for start in range(0, len(units), _BLOCK):
        part = units[start : start + _BLOCK]
        total += part.T @ part
    return total / UNIT**2


def to_coordinates(symmetric: Array) -> Array:
    """Return a symmetric matrix as the vector of its diagonal and √2 times its upper triangle, of the same L2 norm."""
    upper = np.triu_indices(len(symmetric), 1)
    return np.concatenate([symmetric.diagonal(), np.sqrt(2) * symmetric[upper]])


def from_coordinates(vector: Array, size: int) -> Array:
    """Return the symmetric matrix (size, size) with these coordinates."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = vector[size:] / np.sqrt(2)
    symmetric: Array = matrix + matrix.T + np.diag(vector[:size])
    return symmetric
