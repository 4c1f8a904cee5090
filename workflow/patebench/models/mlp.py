"""A perceptron with two hidden layers, for tables and small images."""

import math

from torch import nn

from patebench.models.network import Network
from patebench.models.recipes import Recipe

_HIDDEN = 128


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """An untrained network for samples of any `shape`."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(math.prod(shape), _HIDDEN), nn.ReLU(),
        nn.Linear(_HIDDEN, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, classes),
    )  # fmt: skip


def learner(recipe: Recipe, classes: int) -> Network:
    return Network(build, recipe, classes)
