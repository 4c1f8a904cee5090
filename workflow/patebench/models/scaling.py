"""Standardisation of images and tables, and the bound on every standardised value.

Statistics and differences are computed in double precision, where no table of single-precision values overflows: such
tables hold values up to ±3.4e38 and subnormal ones.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

#: Bound on the absolute value of a standardised number, in standard deviations. None of n values is more than √(n − 1)
#: standard deviations from their mean, so with up to 101 fitted samples only values of other samples can exceed it.
LIMIT = 10.0

#: Values whose standard deviation is at most this fraction of their mean differ by the rounding of single precision.
ROUNDING = 4 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True, eq=False)
class Columns:
    """Mean and divisor (features,) of each column of a table: its standard deviation, or 1 for a constant column.

    Where values differ by no more than the rounding of single precision, the divisor is at least 1. Such a column is
    constant, or its differences are small compared with an offset, as in time stamps.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, table: NDArray[Any]) -> Self:
        """Measure a `table` (samples, features) of finite single-precision values."""
        values = np.asarray(table, np.float64)
        mean, deviation = values.mean(axis=0), values.std(axis=0)
        rounded = deviation <= ROUNDING * np.abs(mean)
        return cls(mean, np.where(rounded, np.maximum(deviation, 1.0), deviation))

    def transform(self, table: NDArray[Any]) -> NDArray[np.float32]:
        """Standardise a table of the same columns; values beyond ±`LIMIT` become ±`LIMIT`."""
        scaled = (np.asarray(table, np.float64) - self.mean) / self.scale
        return np.clip(scaled, -LIMIT, LIMIT).astype(np.float32)


class Standardise(nn.Module):
    """Module that subtracts the mean and divides by the standard deviation of the samples that a network is fitted to.

    Both are per channel for images (samples, channels, height, width), per feature for tables (samples, features). For
    a teacher, these samples are only its own shard. A constant channel or feature is divided by 1, and no result
    exceeds ±`scaling.LIMIT`. Tables are computed in double precision, and images, which are bytes, in single precision.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        mean, spread = _channels(x) if x.ndim == 4 else _features(x)
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)

    def forward(self, x: Tensor) -> Tensor:
        return standardised(x, self.mean, self.spread)

    @property
    def background(self) -> float:
        """Return the standardised value of 0 (black), in the channel where it is lowest."""
        return float(standardised(torch.zeros_like(self.mean), self.mean, self.spread).min())


def standardised(x: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    """Standardise `x` in the precision of `mean`, within ±`LIMIT`; the result is in single precision."""
    return ((x.to(mean.dtype) - mean) / spread).clamp_(-LIMIT, LIMIT).float()


def _channels(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and divisor (1, channels, 1, 1) of images."""
    x, axes = x.float(), (0, 2, 3)
    mean, deviation = x.mean(axes, keepdim=True), x.std(axes, keepdim=True, correction=0)
    constant = (x.amax(axes, keepdim=True) == x.amin(axes, keepdim=True)) | (deviation <= ROUNDING * mean.abs())
    return mean, torch.where(constant, deviation.clamp_min(1.0), deviation)


def _features(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and divisor (1, features) of a table."""
    columns = Columns.of(x.cpu().numpy())
    mean, scale = (torch.from_numpy(values)[None].to(x.device) for values in (columns.mean, columns.scale))
    return mean, scale
