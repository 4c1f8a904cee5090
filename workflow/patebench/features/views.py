"""Create random views (augmentations) of samples, which keep the class, in three strengths: weak, medium and strong.

Images are shifted, rotated, scaled, sheared and bent. In tables, some features are replaced by values of other samples
of the batch ("swap noise"). Images are not flipped and keep their colours, as a flip could change the class of a digit.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patebench.models.augment import random_affine
from patebench.models.device import autocast
from patebench.models.network import seeded
from patebench.models.recipes import MODERN

_RECIPES = {
    "weak": replace(MODERN, rotation=4.0, shear=4.0, scale=0.04, shift=0.04),
    "medium": replace(MODERN, rotation=10.0, shear=10.0, scale=0.1, shift=0.08, bend=0.02),
    "strong": replace(MODERN, rotation=15.0, shear=15.0, scale=0.15, shift=0.1, bend=0.03),
}

#: Number of views, in addition to the image itself, that a prediction averages (test-time augmentation).
_VIEWS = 5
#: Samples in one batch of predictions.
_PREDICT_BATCH = 200

#: Fraction of a table's features that are swapped, and the standard deviation of the noise on all features.
_SWAPPED = {"weak": 0.05, "medium": 0.1, "strong": 0.25}
_JITTER = {"weak": 0.05, "medium": 0.1, "strong": 0.15}


class Views:
    """Generator of random views of standardised samples; `fill` is the value of pixels outside an image."""

    def __init__(self, fill: float) -> None:
        self.fill = fill

    def __call__(self, x: Tensor, strength: str) -> Tensor:
        """Return a random view of each sample of `x` (samples, …); `strength` is "weak", "medium" or "strong"."""
        if x.ndim != 4:
            return _swap_features(x, strength)
        moved = random_affine(x, _RECIPES[strength], torch.default_generator, fill=self.fill)
        return moved.contiguous(memory_format=torch.channels_last)

    @torch.inference_mode()
    def predict(
        self, logits: Callable[[Tensor], Tensor], scale: Callable[[Tensor], Tensor], x: NDArray[Any], on: torch.device
    ) -> NDArray[np.float64]:
        """Return log-probabilities (samples, classes) of samples `x` (samples, …), in batches on the device `on`.

        `logits` is the network, and `scale` the function that standardises its input.
        """
        batches = torch.from_numpy(x).split(_PREDICT_BATCH)  # type: ignore[no-untyped-call]
        with autocast(on):
            predicted = [self.log_probabilities(logits, scale(batch.to(on))).cpu() for batch in batches]
        return torch.cat(predicted).double().log_softmax(1).numpy()

    def log_probabilities(self, logits: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Return log-probabilities (samples, classes) of standardised samples `x` by the network `logits`.

        For images, probabilities are averaged over the image and a few weak views, which are drawn with a fixed seed.
        """
        with seeded(0):
            views = [x, *(self(x, "weak") for _ in range(_VIEWS if x.ndim == 4 else 0))]
            predicted = torch.stack([logits(view).float().log_softmax(1) for view in views])
        return predicted.logsumexp(0) - math.log(len(views))


def _swap_features(x: Tensor, strength: str) -> Tensor:
    """Swap random features between samples, and add noise to all features."""
    others = x[torch.randint(len(x), x.shape), torch.arange(x.shape[1])]
    swapped = torch.where((torch.rand(x.shape) < _SWAPPED[strength]).to(x.device), others, x)
    return swapped + _JITTER[strength] * torch.randn(x.shape).to(x.device)
