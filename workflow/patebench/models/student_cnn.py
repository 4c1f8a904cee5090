"""A CNN for students, which are few and see far more samples than a teacher: three 3×3 convolutions."""

from torch import nn

from patebench.models.images import flat, image_shape
from patebench.models.network import Network
from patebench.models.recipes import Recipe


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """An untrained network for images of `shape` (channels, height, width)."""
    layers: list[nn.Module] = []
    width, _, _ = image_shape("student-cnn", shape)
    for channels in (32, 64, 128):
        layers += [nn.Conv2d(width, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)]
        width = channels
    features = nn.Sequential(*layers, nn.Flatten())
    return nn.Sequential(features, nn.Linear(flat(features, shape), 128), nn.ReLU(), nn.Linear(128, classes))


def learner(recipe: Recipe, classes: int) -> Network:
    return Network(build, recipe, classes)
