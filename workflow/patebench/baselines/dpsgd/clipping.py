"""Clipping: one sample changes a sum by the clipping norm at most, whatever its gradient is.

Each sample's gradient is computed from that sample alone, so no layer can mix samples. A model is one vector of
weights.
"""

from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

#: Clipped norms are this much below the bound, relatively, so that rounding to single precision does not pass it.
_ROUNDING = 1e-5


class PrivateModel(Protocol):
    """A model together with the private samples that it learns from."""

    def start(self) -> Tensor:
        """The weights before the first step, as one vector; they depend on no private sample."""

    def clipped_sum(self, weights: Tensor, chosen: Tensor, clip: float) -> Tensor:
        """The sum of the gradients (weights,) of the samples at positions `chosen`, each clipped to the norm `clip`."""

    def logits(self, weights: Tensor, x: NDArray[Any]) -> Tensor:
        """Unnormalised log-probabilities (samples, classes) of other samples."""


def clip_factors(norms: Tensor, clip: float) -> Tensor:
    """What makes gradients of these norms no longer than `clip`; 0 where a norm is no number, or infinite."""
    return torch.where(torch.isfinite(norms), (clip / norms).clamp(max=1.0) * (1 - _ROUNDING), 0.0)


def counted(gradients: Tensor, factors: Tensor) -> Tensor:
    """The same rows, but those whose factor is 0 are 0: a factor does not undo what is no number."""
    return gradients if bool((factors > 0).all()) else torch.where(factors[:, None] > 0, gradients, 0.0)
