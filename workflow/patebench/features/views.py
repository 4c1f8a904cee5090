"""Create random views (augmentations) of samples, which keep the class, in three strengths: weak, medium and strong.

Images are shifted, rotated, scaled, sheared and bent. In tables, some features are replaced by values of other samples
of the batch ("swap noise"). Images are not flipped and keep their colours, as a flip could change the class of a digit.
"""

from dataclasses import replace

import torch
from torch import Tensor

from patebench.models.augment import random_affine
from patebench.models.recipes import MODERN

_RECIPES = {
    "weak": replace(MODERN, rotation=4.0, shear=4.0, scale=0.04, shift=0.04),
    "medium": replace(MODERN, rotation=10.0, shear=10.0, scale=0.1, shift=0.08, bend=0.02),
    "strong": replace(MODERN, rotation=15.0, shear=15.0, scale=0.15, shift=0.1, bend=0.03),
}

#: Fraction of a table's features that are swapped, and the standard deviation of the noise on all features.
_SWAPPED = {"weak": 0.05, "medium": 0.1, "strong": 0.25}
_JITTER = {"weak": 0.05, "medium": 0.1, "strong": 0.15}


def random_view(x: Tensor, strength: str, *, fill: float) -> Tensor:
    """Return a random view of each standardised sample of `x` (samples, …): a distorted image or a changed row.

    `strength` is "weak", "medium" or "strong", and `fill` the value of pixels outside an image.
    """
    if x.ndim != 4:
        return _swap_features(x, strength)
    moved = random_affine(x, _RECIPES[strength], torch.default_generator, fill=fill)
    return moved.contiguous(memory_format=torch.channels_last)


def _swap_features(x: Tensor, strength: str) -> Tensor:
    """Replace random features by those of other samples of the batch, and add noise to all features."""
    others = x[torch.randint(len(x), x.shape), torch.arange(x.shape[1])]
    swapped = torch.where((torch.rand(x.shape) < _SWAPPED[strength]).to(x.device), others, x)
    return swapped + _JITTER[strength] * torch.randn(x.shape).to(x.device)
