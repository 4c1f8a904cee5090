"""Standardisation of the columns of tables, and the bound on every standardised value.

Statistics and differences are computed in double precision, where no table of single-precision values overflows: such
tables hold values up to ±3.4e38 and subnormal ones.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

#: Bound on the absolute value of a standardised number, in standard deviations. Among n values none is more than
#: √(n − 1) standard deviations from their mean, so up to 101 samples only values of other samples can exceed it.
LIMIT = 10.0

#: Values whose standard deviation is at most this fraction of their mean differ by the rounding of single precision.
ROUNDING = 4 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True, eq=False)
class Columns:
    """Mean and divisor (features,) of each column of a table: its standard deviation, or 1 for a constant column.

    Where values differ by no more than the rounding of single precision, the divisor is at least 1: the column is
    constant, or its differences are small beside an offset, as in time stamps.
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
