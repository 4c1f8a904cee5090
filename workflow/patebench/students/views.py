"""Random views (augmentations) of samples that keep their class: weak ones change a sample little, strong ones much.

Images are shifted, rotated, scaled, sheared and bent. In tables, some features take the values of other samples of the
batch ("swap noise"). No flips and no colours: a 6 must not become a 9, whatever the data set.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from patebench.models.augment import random_affine
from patebench.models.recipes import MODERN, Recipe

_WEAK = replace(MODERN, rotation=4.0, shear=4.0, scale=0.04, shift=0.04)
_MEDIUM = replace(MODERN, rotation=10.0, shear=10.0, scale=0.1, shift=0.08, bend=0.02)
_STRONG = replace(MODERN, rotation=15.0, shear=15.0, scale=0.15, shift=0.1, bend=0.03)

#: A prediction for an image is the mean over the image and so many views (test-time augmentation).
_VIEWS = 5

#: The share of a table's features that are swapped, and the standard deviation of the noise on all features.
_SWAPPED = {"weak": 0.05, "medium": 0.1, "strong": 0.25}
_JITTER = {"weak": 0.05, "medium": 0.1, "strong": 0.15}


class Views:
    """Makes views of standardised samples; `fill` is the value outside of an image."""

    def __init__(self, fill: float) -> None:
        self.fill = fill

    def weak(self, x: Tensor) -> Tensor:
        return self._moved(x, _WEAK) if x.ndim == 4 else _swapped(x, "weak")

    def medium(self, x: Tensor) -> Tensor:
        return self._moved(x, _MEDIUM) if x.ndim == 4 else _swapped(x, "medium")

    def strong(self, x: Tensor) -> Tensor:
        return self._moved(x, _STRONG) if x.ndim == 4 else _swapped(x, "strong")

    def _moved(self, x: Tensor, recipe: Recipe) -> Tensor:
        moved = random_affine(x, recipe, torch.default_generator, fill=self.fill)
        return moved.contiguous(memory_format=torch.channels_last)

    def log_probabilities(self, logits: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Log-probabilities (samples, classes) for `x` by a network of `logits`.

        For images, the mean of the probabilities over the image and a few weak views, whose draws are always the same.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            views = [x, *(self.weak(x) for _ in range(_VIEWS if x.ndim == 4 else 0))]
            predicted = torch.stack([logits(view).float().log_softmax(1) for view in views])
        return predicted.logsumexp(0) - math.log(len(views))


def _swapped(x: Tensor, strength: str) -> Tensor:
    """`x` (samples, features) with some features taken from other samples, and noise on all."""
    others = x[torch.randint(len(x), x.shape), torch.arange(x.shape[1])]
    swapped = torch.where((torch.rand(x.shape) < _SWAPPED[strength]).to(x.device), others, x)
    return swapped + _JITTER[strength] * torch.randn(x.shape).to(x.device)
