"""The deeper CNN of PATE 2017 for SVHN: "we add two hidden layers" (Section 4), here one more convolution a stage."""

from torch import nn

from patebench.models.images import image_shape
from patebench.models.network import Network
from patebench.models.paper_cnn import ChannelNormalise, head, pool
from patebench.models.recipes import Recipe


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """An untrained network for images of `shape` (channels, height, width)."""
    channels, _, _ = image_shape("paper-cnn-deep", shape)
    features = nn.Sequential(
        nn.Conv2d(channels, 64, 5, padding=2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), pool(), ChannelNormalise(64),
        nn.Conv2d(64, 128, 5, padding=2), nn.ReLU(),
        nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(), ChannelNormalise(128), pool(),
        nn.Flatten(),
    )  # fmt: skip
    return head(features, shape, classes)


def learner(recipe: Recipe, classes: int) -> Network:
    return Network(build, recipe, classes)
