"""Random views of samples that leave their class as it was: weak ones nearly the sample itself, strong ones far off.

Images are moved, turned, scaled and sheared. In tables, some features take the values of other samples of the batch
("swap noise"). No flips and no colours: a 6 must not become a 9, whatever the data set.
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

#: How many views of an image answer beside the image itself.
_VIEWS = 5

#: The share of a table's features that are swapped, and the spread of the noise on all standardised features.
_SWAPPED = {"weak": 0.05, "medium": 0.1, "strong": 0.25}
_JITTER = {"weak": 0.05, "medium": 0.1, "strong": 0.15}


class Views:
    """Makes views of standardised samples; `fill` is the value that comes in from outside an image."""

    def __init__(self, fill: float) -> None:
        self.fill = fill

    def weak(self, x: Tensor) -> Tensor:
        return self._moved(x, _WEAK) if x.ndim == 4 else _swapped(x, "weak")

    def medium(self, x: Tensor) -> Tensor:
        return self._moved(x, _MEDIUM) if x.ndim == 4 else _swapped(x, "medium")

    def strong(self, x: Tensor) -> Tensor:
        return self._moved(x, _STRONG) if x.ndim == 4 else _swapped(x, "strong")

    def _moved(self, x: Tensor, how: Recipe) -> Tensor:
        moved = random_affine(x, how, torch.default_generator, fill=self.fill)
        return moved.contiguous(memory_format=torch.channels_last)

    def answer(self, logits: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Log-probabilities for `x`: of images, the mean over the image and a few weak views, always the same ones."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            views = [x, *(self.weak(x) for _ in range(_VIEWS if x.ndim == 4 else 0))]
            answers = torch.stack([logits(view).float().log_softmax(1) for view in views])
        return answers.logsumexp(0) - math.log(len(views))


def _swapped(x: Tensor, how: str) -> Tensor:
    others = x[torch.randint(len(x), x.shape), torch.arange(x.shape[1])]
    swapped = torch.where((torch.rand(x.shape) < _SWAPPED[how]).to(x.device), others, x)
    return swapped + _JITTER[how] * torch.randn(x.shape).to(x.device)
