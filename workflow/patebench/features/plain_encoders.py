"""Compute features without learning: pixels, histograms of oriented gradients, and columns of a table.

Pixels and histograms of oriented gradients are baselines for learnt features. Histograms of oriented gradients (HOG)
are from Dalal & Triggs 2005, *Histograms of oriented gradients for human detection*.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.progress import Report, silent
from patebench.features import Encoder, in_batches

#: Number of directions of a gradient, modulo 180°; width of a block in cells; and the clipping value of a block.
DIRECTIONS, BLOCK, CUT = 9, 2, 0.2
#: Number of cells along the shorter side of an image.
_CELLS = 7
_BATCH = 1000


class _Plain(Encoder):
    """Base class of encoders that learn nothing from the pool except the shape of samples."""

    exact = True  # no sum runs over more than one sample

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    @classmethod
    def learn(cls, pool: NDArray[Any], report: Report = silent) -> Self:
        cls.check(pool.shape[1:])
        report(1, 1)
        return cls(pool.shape[1:])

    def features(self, x: NDArray[Any]) -> NDArray[np.float64]:
        self.check_shape(x)
        return in_batches(self.vectors, x, size=_BATCH)

    @abstractmethod
    def vectors(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return the features (samples, features) of samples `x` (samples, …), whose shape has been checked."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        none = np.zeros(1, np.float32)
        return {"weights": none, "mean": none, "spread": none, "shape": np.array(self.shape, dtype=np.int64)}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        shape = tuple(map(int, arrays["shape"]))
        cls.check(shape)
        if len(arrays["weights"]) != 1 or arrays["weights"].any():
            raise PatebenchError(
                f"its arrays do not fit the encoder '{cls.kind}', so it is damaged or another encoder made it"
            )
        return cls(shape)


class Pixels(_Plain):
    """Encoder by pixel values from 0 to 1, divided by √(number of pixels), so that vectors have at most length 1."""

    kind = "pixels"

    def vectors(self, x: NDArray[Any]) -> NDArray[np.float64]:
        flat = x.reshape(len(x), -1).astype(np.float64)
        return flat / (255 * np.sqrt(flat.shape[1]))


class Gradients(_Plain):
    """Encoder of images by histograms of oriented gradients (HOG), as unit vectors.

    The colour channels of an image are averaged first.
    """

    kind = "gradients"

    @classmethod
    def check(cls, shape: tuple[int, ...]) -> None:
        if len(shape) != 3 or min(shape[1:]) < 2 * BLOCK:
            raise PatebenchError(
                f"histograms of gradients need images of at least {2 * BLOCK}×{2 * BLOCK} pixels, not samples of shape"
                f" {shape}; use the encoder 'contrastive'"
            )

    def vectors(self, x: NDArray[Any]) -> NDArray[np.float64]:
        cells = _cell_histograms(x.mean(axis=1) / 255)
        blocks = np.stack(
            [cells[:, i : i + cells.shape[1] - BLOCK + 1, j : j + cells.shape[2] - BLOCK + 1] for i, j in _BLOCK],
            axis=3,
        )
        flat = _to_unit_length(blocks.reshape(*blocks.shape[:3], -1))
        flat = _to_unit_length(np.minimum(flat, CUT))
        return _to_unit_length(flat.reshape(len(x), -1))


class TableColumns(_Plain):
    """Encoder of a table: the features of a sample are its row of the table, scaled to unit length.

    The columns may be, for example, the features that an external public encoder computed.
    """

    kind = "columns"

    def vectors(self, x: NDArray[Any]) -> NDArray[np.float64]:
        return _to_unit_length(x.astype(np.float64))


_BLOCK = [(i, j) for i in range(BLOCK) for j in range(BLOCK)]


def _cell_histograms(grey: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide the `grey` images into square cells, and return a histogram of gradient directions for each cell.

    The result is (images, rows of cells, columns of cells, DIRECTIONS). Each gradient is weighted by its length.
    """
    down, across = np.gradient(grey, axis=(1, 2))
    length = np.hypot(down, across)
    angle = np.arctan2(down, across) / np.pi * DIRECTIONS
    # The length of a gradient is divided between the two nearest directions.
    lower = np.floor(angle)
    upper_share = angle - lower
    side = max(1, min(grey.shape[1:]) // _CELLS)
    rows, columns = grey.shape[1] // side, grey.shape[2] // side
    histograms = np.zeros((len(grey), rows, columns, DIRECTIONS))
    for direction in range(DIRECTIONS):
        weight = np.where(lower % DIRECTIONS == direction, 1 - upper_share, 0.0)
        weight += np.where((lower + 1) % DIRECTIONS == direction, upper_share, 0.0)
        # Pixels that fill no whole cell are not counted.
        whole = (weight * length)[:, : rows * side, : columns * side]
        histograms[..., direction] = whole.reshape(len(grey), rows, side, columns, side).sum(axis=(2, 4))
    return histograms


def _to_unit_length(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale vectors to unit length; zero vectors stay zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(length, 1e-12)
