"""Helpers for architectures that read images."""

import torch
from torch import nn

from patebench.core.errors import PatebenchError


def image_shape(model: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """`shape` as (channels, height, width), or one line that says which models read tables."""
    if len(shape) != 3 or min(shape[1:]) < 4:
        raise PatebenchError(
            f"the model '{model}' reads images of at least 4×4 pixels, and these samples have shape {shape}; "
            "use mlp, logistic or random-forest"
        )
    channels, height, width = shape
    return channels, height, width


def flat(features: nn.Module, shape: tuple[int, ...]) -> int:
    """How many numbers `features` makes of one image of `shape`."""
    with torch.no_grad():
        return int(features(torch.zeros(1, *shape)).numel())
