"""Helpers for architectures that read images."""

import torch
from torch import nn

from patebench.core.errors import PatebenchError


def image_shape(model: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """`shape` as (channels, height, width); PatebenchError, which says what models read tables, if it is no image's."""
    if len(shape) != 3 or min(shape[1:]) < 4:
        raise PatebenchError(
            f"the model '{model}' reads images of at least 4×4 pixels, and these samples have shape {shape}; "
            "use mlp, logistic or random-forest"
        )
    channels, height, width = shape
    return channels, height, width


def flat(features: nn.Module, shape: tuple[int, ...]) -> int:
    """How many outputs `features` has for one image of `shape` (channels, height, width)."""
    with torch.no_grad():
        return int(features(torch.zeros(1, *shape)).numel())
