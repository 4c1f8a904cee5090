"""Features that nothing is learnt for: pixels, histograms of oriented gradients, and columns of a table.

What clusters of these tell apart is the least that learnt features must better: k-means on pixels, or on histograms of
gradients (HOG; Dalal & Triggs 2005, *Histograms of oriented gradients for human detection*).
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.progress import Report
from patebench.features import Encoder, check_input

#: Directions of a gradient, of which opposite ones are one; cells of a block; and where a block's parts are cut off.
DIRECTIONS, BLOCK, CUT = 9, 2, 0.2
#: So many cells lie along the shorter side of an image.
_CELLS = 7
_BATCH = 1000


class _Plain(Encoder):
    """An encoder that learns nothing but the shape of samples."""

    kind: ClassVar[str]

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    @classmethod
    def learn(cls, pool: NDArray[Any], report: Report | None = None) -> Self:
        cls.check(tuple(pool.shape[1:]))
        if report:
            report(1, 1)
        return cls(tuple(pool.shape[1:]))

    @classmethod
    @abstractmethod
    def check(cls, shape: tuple[int, ...]) -> None:
        """Refuse samples that have no such features."""

    def features(self, x: NDArray[Any]) -> NDArray[np.float64]:
        self.check_shape(x)
        parts = [self.vectors(x[start : start + _BATCH]) for start in range(0, len(x), _BATCH)]
        return np.concatenate(parts) if parts else self.vectors(x)

    def features_alone(self, x: NDArray[Any], report: Report | None = None) -> NDArray[np.float64]:
        """Return the features: no sum runs over more than one sample."""
        found = self.features(x)
        if report:
            report(len(x), len(x))
        return found

    @abstractmethod
    def vectors(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return features of samples of the right shape."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        none = np.zeros(1, np.float32)
        return {"weights": none, "mean": none, "spread": none, "shape": np.array(self.shape, dtype=np.int64)}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        shape = tuple(int(size) for size in arrays["shape"])
        cls.check(shape)
        if len(arrays["weights"]) != 1 or arrays["weights"].any():
            raise PatebenchError(f"these are the arrays of an encoder that has learnt, and not of {cls.kind}")
        return cls(shape)


class Pixels(_Plain):
    """Grey levels between 0 and 1, over the root of their number."""

    kind = "pixels"

    @classmethod
    def check(cls, shape: tuple[int, ...]) -> None:
        check_input(cls.kind, shape)

    def vectors(self, x: NDArray[Any]) -> NDArray[np.float64]:
        flat = x.reshape(len(x), -1).astype(np.float64)
        found: NDArray[np.float64] = flat / (255 * np.sqrt(flat.shape[1]))
        return found


class Gradients(_Plain):
    """Histograms of oriented gradients of an image, the mean of its channels: a unit vector."""

    kind = "gradients"

    @classmethod
    def check(cls, shape: tuple[int, ...]) -> None:
        if len(shape) != 3 or min(shape[1:]) < 2 * BLOCK:
            raise PatebenchError(
                f"samples of shape {shape} have no histograms of gradients; use the encoder contrastive"
            )

    def vectors(self, x: NDArray[Any]) -> NDArray[np.float64]:
        cells = _cells(x.mean(axis=1) / 255)
        blocks = np.stack(
            [cells[:, i : i + cells.shape[1] - BLOCK + 1, j : j + cells.shape[2] - BLOCK + 1] for i, j in _BLOCK],
            axis=3,
        )
        flat = _unit(blocks.reshape(*blocks.shape[:3], -1))
        flat = _unit(np.minimum(flat, CUT))
        return _unit(flat.reshape(len(x), -1))


class TableColumns(_Plain):
    """Columns of a table as a unit vector: features that were computed elsewhere, by a public encoder."""

    kind = "columns"

    @classmethod
    def check(cls, shape: tuple[int, ...]) -> None:
        check_input(cls.kind, shape)

    def vectors(self, x: NDArray[Any]) -> NDArray[np.float64]:
        return _unit(x.astype(np.float64))


_BLOCK = [(i, j) for i in range(BLOCK) for j in range(BLOCK)]


def _cells(grey: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return histograms (samples, rows, columns, DIRECTIONS) of the gradients of `grey` images (samples, height,
    width).

    Each gradient counts with its length, for the two directions that it lies between. What is left over at the right
    and at the bottom is in no cell.
    """
    down, across = np.gradient(grey, axis=(1, 2))
    length = np.hypot(down, across)
    place = np.arctan2(down, across) / np.pi * DIRECTIONS
    lower = np.floor(place)
    upper_share = place - lower
    side = max(1, min(grey.shape[1:]) // _CELLS)
    rows, columns = grey.shape[1] // side, grey.shape[2] // side
    found = np.zeros((len(grey), rows, columns, DIRECTIONS))
    for direction in range(DIRECTIONS):
        weight = np.where(lower % DIRECTIONS == direction, 1 - upper_share, 0.0)
        weight += np.where((lower + 1) % DIRECTIONS == direction, upper_share, 0.0)
        whole = (weight * length)[:, : rows * side, : columns * side]
        found[..., direction] = whole.reshape(len(grey), rows, side, columns, side).sum(axis=(2, 4))
    return found


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return vectors along the last axis over their length; those without any stay nothing."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    found: NDArray[np.float64] = vectors / np.maximum(length, 1e-12)
    return found
