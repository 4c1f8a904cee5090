"""A small CNN with bounded activations, for DP-SGD: it learns more than one with ReLU where gradients are clipped.

The architecture for MNIST of Papernot, Thakurta, Song, Chien, Erlingsson 2021, *Tempered sigmoid activations for deep
learning with differential privacy*: 26,010 weights, and no layer that mixes samples. Small images get small filters.
"""

from torch import nn

from patebench.models.images import flat, image_shape
from patebench.models.network import Network
from patebench.models.recipes import Recipe

#: Images with a shorter side have no room for the paper's filters.
_PAPER = 20


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """An untrained network for images of `shape` (channels, height, width)."""
    channels, height, width = image_shape("tanh-cnn", shape)
    if min(height, width) >= _PAPER:
        layers = [
            nn.Conv2d(channels, 16, 8, stride=2, padding=2), nn.Tanh(), nn.MaxPool2d(2, 1),
            nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, 1),
        ]  # fmt: skip
    else:
        layers = [
            nn.Conv2d(channels, 16, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2),
        ]  # fmt: skip
    features = nn.Sequential(*layers, nn.Flatten())
    return nn.Sequential(features, nn.Linear(flat(features, shape), 32), nn.Tanh(), nn.Linear(32, classes))


def learner(recipe: Recipe, classes: int) -> Network:
    return Network(build, recipe, classes)
