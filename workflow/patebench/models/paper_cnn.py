"""The CNN of PATE 2017's official code (research/pate_2017), after TensorFlow's tutorial on deep CNNs."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patebench.models.images import flat, image_shape
from patebench.models.network import Network
from patebench.models.recipes import Recipe


def pool() -> nn.Module:
    return nn.MaxPool2d(3, stride=2, padding=1)


class ChannelNormalise(nn.Module):
    """TensorFlow's `lrn(4, bias=1, alpha=0.001/9, beta=0.75)`: local response normalisation over 9 channels.

    Equal to `nn.LocalResponseNorm(9, alpha=1e-3, beta=0.75, k=1)`, and several times faster on a CPU: the sum over
    neighbouring channels is a 1×1 convolution with a band matrix, the power −3/4 two square roots.
    """

    band: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        near = torch.arange(channels)
        band = ((near[:, None] - near).abs() <= 4).float() * (1e-3 / 9)
        self.register_buffer("band", band[:, :, None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        scale = 1.0 + F.conv2d(x * x, self.band)
        return x * scale.rsqrt() * scale.sqrt().rsqrt()


def head(features: nn.Module, shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(
        features, nn.Linear(flat(features, shape), 384), nn.ReLU(),
        nn.Linear(384, 192), nn.ReLU(), nn.Linear(192, classes),
    )  # fmt: skip


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """An untrained network for images of `shape` (channels, height, width)."""
    channels, _, _ = image_shape("paper-cnn", shape)
    features = nn.Sequential(
        nn.Conv2d(channels, 64, 5, padding=2), pool(), nn.ReLU(), ChannelNormalise(64),
        nn.Conv2d(64, 128, 5, padding=2), nn.ReLU(), ChannelNormalise(128), pool(),
        nn.Flatten(),
    )  # fmt: skip
    return head(features, shape, classes)


def learner(recipe: Recipe, classes: int) -> Network:
    return Network(build, recipe, classes)
