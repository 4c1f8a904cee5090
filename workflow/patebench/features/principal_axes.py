"""Turn many correlated numbers per sample into unit vectors, by partially whitened principal axes.

The outputs of an image network, or activations of patches, vary mostly along a few directions. They are rotated to
their principal axes, divided along each axis by a power of the variance, and scaled to unit length. Without the
division, the few directions with a large variance would determine the distances between samples.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from patebench.core.errors import PatebenchError
from patebench.core.progress import Report, silent
from patebench.features import Encoder, in_batches

#: Maximum number of axes.
WIDTH = 600
#: Power of the variance by which principal axes are divided; chosen with true labels of CIFAR-10, on seed 0.
_POWER = 0.35
#: Settings of `TableAxes`. Standardised columns are clipped to ±`_LARGEST`, and rounded to multiples of
#: 1/`_COLUMN_GRID`. Axes are rounded to multiples of 1/`_AXIS_GRID`. A batch has `_BATCH` rows.
_LARGEST, _COLUMN_GRID, _AXIS_GRID, _BATCH = 64.0, 2.0**12, 2.0**14, 1000


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """Map from numbers that describe a sample, such as outputs of a network, to a unit vector.

    `mean` and `spread` standardise the numbers, and have one entry per number. Each column of `axes` is a principal
    axis of the standardised numbers, divided by the power 0.35 (`_POWER`) of the variance along it.
    """

    mean: Tensor
    spread: Tensor
    axes: Tensor

    @classmethod
    def learn(cls, numbers: Tensor) -> Self:
        """Learn the map from the samples of a pool, given as a double-precision tensor `numbers` (samples, inputs)."""
        mean, spread = numbers.mean(0).float(), numbers.std(0).clamp_min(1e-6).float()
        scaled = (numbers - mean) / spread
        few = len(scaled) < scaled.shape[1]  # the samples' products then have the same eigenvalues
        products = scaled @ scaled.T if few else scaled.T @ scaled
        variance, axes = (part.flip(-1) for part in torch.linalg.eigh(products / len(scaled)))
        kept = min(WIDTH, int((variance > 1e-6 * variance[0]).sum()))
        if few:
            axes = F.normalize(scaled.T @ axes[:, :kept], dim=0)
        # Contiguous, as when read from a file: in another memory layout, matrix products round differently.
        return cls(mean, spread, (axes[:, :kept] * variance[:kept].pow(-_POWER)).float().contiguous())

    def arrays(self, shape: tuple[int, ...], *others: Tensor) -> dict[str, NDArray[Any]]:
        """Return the arrays, by name, that an encoder with these axes stores in its file.

        The array "shape" is `shape`, the shape of a sample. The arrays "mean" and "spread" are those of this map. The
        array "weights" contains the numbers of all tensors in `others`, the encoder's further tensors, and then those
        of `axes`.
        """
        weights = torch.cat([part.reshape(-1) for part in (*others, self.axes)]).numpy()
        scaling = {"mean": self.mean.numpy(), "spread": self.spread.numpy()}
        return {"weights": weights, **scaling, "shape": np.array(shape, dtype=np.int64)}

    @classmethod
    def of(cls, axes: Tensor, arrays: Mapping[str, NDArray[Any]], inputs: int, kind: str) -> Self:
        """Return the map that is stored in an encoder's file.

        `axes` is the flattened matrix of axes in the file, and `arrays` contains the vectors "mean" and "spread", each
        of length `inputs`. Raises PatebenchError if a length is wrong. The error message names `kind`, the name of the
        encoder.
        """
        mean, spread = torch.from_numpy(arrays["mean"]), torch.from_numpy(arrays["spread"])
        if not len(mean) == len(spread) == inputs or not len(axes) or len(axes) % inputs:
            raise PatebenchError(
                f"its arrays do not fit the encoder '{kind}', so it is damaged or another encoder made it"
            )
        return cls(mean, spread, axes.reshape(inputs, -1))

    def units(self, numbers: Tensor) -> NDArray[np.float64]:
        """Map `numbers` (samples, numbers) to unit vectors (samples, axes)."""
        scaled = (numbers - self.mean) / self.spread
        return F.normalize((scaled @ self.axes).double(), dim=1).numpy()


class AxesEncoder(Encoder):
    """Base class of encoders that map the outputs of a fixed function, such as a pretrained network, to principal axes.

    Subclasses define the function (`outputs`). Only the axes are learnt from the pool.
    """

    def __init__(self, shape: tuple[int, ...], axes: PrincipalAxes) -> None:
        self.shape, self.axes = shape, axes

    @classmethod
    @abstractmethod
    def outputs(cls, x: NDArray[Any], report: Report = silent) -> Tensor:
        """Apply the fixed function to samples `x` (samples, …); return its float32 outputs (samples, numbers)."""

    @classmethod
    def outputs_alone(cls, x: NDArray[Any], report: Report = silent) -> NDArray[np.float32]:
        """Return `outputs` (records, numbers) of private records `x`, computed for each record independently."""
        return in_batches(lambda record: cls.outputs(record).numpy(), x, report)

    @classmethod
    def learn(cls, pool: NDArray[Any], report: Report = silent) -> Self:
        shape = pool.shape[1:]
        cls.check(shape)
        return cls(shape, PrincipalAxes.learn(cls.outputs(pool, report).double()))

    def features(self, x: NDArray[Any]) -> NDArray[np.float64]:
        self.check_shape(x)
        return self.axes.units(self.outputs(x))

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self.axes.arrays(self.shape)

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        shape = tuple(map(int, arrays["shape"]))
        cls.check(shape)
        numbers = cls.outputs(np.zeros((0, *shape), np.uint8)).shape[1]
        return cls(shape, PrincipalAxes.of(torch.from_numpy(arrays["weights"]), arrays, numbers, cls.kind))


class TableAxes(AxesEncoder):
    """Encoder of a table by the principal axes of its columns.

    Columns and axes are rounded to multiples of fixed steps. Products of columns and axes are then summed without
    rounding errors, so the features of a record do not depend on other records in the same batch.
    """

    kind = "axes"
    exact = True

    @classmethod
    def outputs(cls, x: NDArray[Any], report: Report = silent) -> Tensor:
        report(1, 1)
        return torch.from_numpy(x).float()

    def features(self, x: NDArray[Any]) -> NDArray[np.float64]:
        self.check_shape(x)
        return in_batches(self._units, x, size=_BATCH)

    def _units(self, x: NDArray[Any]) -> NDArray[np.float64]:
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (x - self.axes.mean.numpy()) / self.axes.spread.numpy()
        columns = np.rint(np.clip(scaled, -_LARGEST, _LARGEST).astype(np.float64) * _COLUMN_GRID)
        along = columns @ np.rint(self.axes.axes.numpy().astype(np.float64) * _AXIS_GRID)
        return along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1)
