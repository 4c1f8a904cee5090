"""Standardisation of images and tables: subtract the mean, divide by the standard deviation, and clip.

Tables are standardised in double precision, because sums of squares of single-precision values, up to 3.4e38, would
overflow.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

#: Bound on the absolute value of a standardised number, in standard deviations. Each of n values is within √(n − 1)
#: standard deviations of their mean, so with up to 101 training samples the bound clips no training sample.
LIMIT = 10.0

#: A column counts as constant up to rounding if its standard deviation is at most this fraction of its mean.
ROUNDING = 4 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True, eq=False)
class Columns:
    """Standardisation of a table: subtract `mean` (features,) from its columns, and divide them by `scale` (features,).

    `scale` is the standard deviation of each column. If a column is constant up to rounding to single precision, its
    `scale` is at least 1.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, table: NDArray[Any]) -> Self:
        """Return the standardisation learnt from `table` (samples, features), whose values must be finite."""
        values = np.asarray(table, np.float64)
        mean, deviation = values.mean(axis=0), values.std(axis=0)
        rounded = deviation <= ROUNDING * np.abs(mean)
        return cls(mean, np.where(rounded, np.maximum(deviation, 1.0), deviation))

    def transform(self, table: NDArray[Any]) -> NDArray[np.float32]:
        """Return `table` (samples, features), standardised and clipped to ±`LIMIT`."""
        scaled = (np.asarray(table, np.float64) - self.mean) / self.scale
        return np.clip(scaled, -LIMIT, LIMIT).astype(np.float32)


class Standardise(nn.Module):
    """Module that standardises samples by the mean and standard deviation of the training samples `x`.

    Mean and standard deviation are computed per channel of images (samples, channels, height, width), or per feature of
    tables (samples, features). For a teacher, `x` is the teacher's shard. If a channel or feature is constant up to
    rounding, its divisor is at least 1. Results are clipped to ±`LIMIT`. Tables are computed in double precision,
    images in single precision.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        if x.ndim == 4:
            mean, spread = _channel_scaling(x)
        else:
            columns = Columns.of(x.cpu().numpy())
            mean, spread = (torch.from_numpy(values)[None].to(x.device) for values in (columns.mean, columns.scale))
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)

    def forward(self, x: Tensor) -> Tensor:
        return standardised(x, self.mean, self.spread)

    @property
    def background(self) -> float:
        """Return the standardised value of a black pixel (0), used to fill pixels from outside an image.

        If it differs between channels, the smallest value is returned.
        """
        return float(standardised(torch.zeros_like(self.mean), self.mean, self.spread).min())


class Unscaled(nn.Module):
    """Module that converts images to float32 without scaling, for networks that scale values 0 … 255 themselves."""

    #: Value of a black pixel.
    background = 0.0

    def forward(self, x: Tensor) -> Tensor:
        return x.float()


def standardised(x: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    """Return (`x` − `mean`)/`spread` as float32, computed in the precision of `mean` and clipped to ±`LIMIT`."""
    return ((x.to(mean.dtype) - mean) / spread).clamp_(-LIMIT, LIMIT).float()


def _channel_scaling(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the divisor (standard deviation) of each channel of images `x`, both (1, channels, 1, 1)."""
    x, axes = x.float(), (0, 2, 3)
    mean, deviation = x.mean(axes, keepdim=True), x.std(axes, keepdim=True, correction=0)
    constant = (x.amax(axes, keepdim=True) == x.amin(axes, keepdim=True)) | (deviation <= ROUNDING * mean.abs())
    return mean, torch.where(constant, deviation.clamp_min(1.0), deviation)
