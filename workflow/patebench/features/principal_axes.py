"""Partially whitened principal axes, by which encoders turn many correlated numbers into unit vectors.

Numbers that an image network or patches yield vary mostly along a few directions. They are rotated to their principal
axes, each divided by a power of its variance, and scaled to unit length, after which near samples are most similar.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

#: Maximum number of axes.
WIDTH = 600
#: Power of the variance by which principal axes are divided; chosen with true labels of CIFAR-10, on seed 0.
_POWER = 0.35


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """Map from the numbers of a sample to a unit vector.

    `mean` and `spread` (numbers,) standardise the numbers. `axes` (numbers, axes) are the principal axes, each divided
    by a power of its variance.
    """

    mean: Tensor
    spread: Tensor
    axes: Tensor

    @classmethod
    def learn(cls, numbers: Tensor) -> Self:
        """Learn the axes from the `numbers` (samples, numbers) of a pool, in double precision."""
        mean, spread = numbers.mean(0).float(), numbers.std(0).clamp_min(1e-6).float()
        scaled = (numbers - mean) / spread
        variance, axes = (part.flip(-1) for part in torch.linalg.eigh(scaled.T @ scaled / len(scaled)))
        kept = min(WIDTH, int((variance > 1e-6 * variance[0]).sum()))
        # Contiguous, as when read from a file: in another memory layout, matrix products round differently.
        return cls(mean, spread, (axes[:, :kept] * variance[:kept].pow(-_POWER)).float().contiguous())

    def scaling(self) -> dict[str, NDArray[np.float32]]:
        """Return mean and spread as the arrays of these names in an ENCODER artefact."""
        return {"mean": self.mean.numpy(), "spread": self.spread.numpy()}

    def units(self, numbers: Tensor) -> NDArray[np.float64]:
        """Return a unit vector (samples, axes) for the `numbers` (samples, numbers) of each sample."""
        scaled = (numbers - self.mean) / self.spread
        units: NDArray[np.float64] = F.normalize((scaled @ self.axes).double(), dim=1).numpy()
        return units
