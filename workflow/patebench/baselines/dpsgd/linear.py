"""Softmax regression on public features, after Tramèr & Boneh 2021, *Differentially private learning needs better
features (or much more data)*.

A gradient is the outer product of an error and an input, so its norm needs no gradient: ‖(p − y) xᵀ‖ = ‖p − y‖·‖x‖. The
sum of all clipped ones is one product of matrices, and no gradient of a single sample is ever made, as hooks such as
those of Opacus would do.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from patebench.baselines.dpsgd.clipping import clip_factors, counted

#: Public features (samples, features) of any samples.
Features = Callable[[NDArray[Any]], NDArray[np.floating]]


class LinearModel:
    """A linear classifier of features, with weights (features + 1, classes): the last row is of a constant input 1."""

    def __init__(self, features: Features, x: NDArray[Any], y: NDArray[np.integer], classes: int) -> None:
        self._features = features
        self._inputs = self._inputs_of(x)
        labels = torch.from_numpy(y.astype(np.int64))
        self._targets = F.one_hot(labels, classes).to(self._inputs.dtype)
        self._norms = self._inputs.norm(dim=1)

    def start(self) -> Tensor:
        """All weights 0: every class is as likely as any other."""
        return torch.zeros(self._inputs.shape[1] * self._targets.shape[1])

    def clipped_sum(self, weights: Tensor, chosen: Tensor, clip: float) -> Tensor:
        inputs = self._inputs[chosen]
        errors = self._logits(weights, inputs).softmax(1) - self._targets[chosen]
        factors = clip_factors(errors.norm(dim=1) * self._norms[chosen], clip)
        inputs, errors = counted(inputs, factors), counted(errors, factors)
        return (inputs.T @ (errors * factors[:, None])).flatten()

    def logits(self, weights: Tensor, x: NDArray[Any]) -> Tensor:
        return self._logits(weights, self._inputs_of(x))

    def _logits(self, weights: Tensor, inputs: Tensor) -> Tensor:
        return inputs @ weights.view(inputs.shape[1], -1)

    def _inputs_of(self, x: NDArray[Any]) -> Tensor:
        """Features of samples, and a last one that is 1."""
        return F.pad(torch.from_numpy(self._features(x)).float(), (0, 1), value=1.0)
