"""A small modern CNN: two 5×5 convolutions of 16 and 32 channels, 64 hidden units. Good teachers from 240 images."""

from torch import nn

from patebench.models.images import flat, image_shape
from patebench.models.network import Network
from patebench.models.recipes import Recipe


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """An untrained network for images of `shape` (channels, height, width)."""
    channels, _, _ = image_shape("small-cnn", shape)
    # Pooling and ReLU commute; pooling first leaves the ReLU a quarter of the work.
    features = nn.Sequential(
        nn.Conv2d(channels, 16, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(16, 32, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(),
    )  # fmt: skip
    return nn.Sequential(features, nn.Linear(flat(features, shape), 64), nn.ReLU(), nn.Linear(64, classes))


def learner(recipe: Recipe, classes: int) -> Network:
    return Network(build, recipe, classes)
