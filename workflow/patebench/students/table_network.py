"""A network that learns the predictions of a regression of the noisy table on the pool, for photographs.

The regression (`table_regression.py`) uses fixed features and gives every sample of the pool the probabilities of its
classes. A small convolutional network learns these (distillation; Hinton et al. 2015) from shifted and mirrored images.
It cannot learn the regression's errors on single images, so it is more accurate than the regression. The pool and the
table are public, so this costs no privacy.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.models.architectures import image_shape
from patebench.models.network import Network
from patebench.models.recipes import PLAIN
from patebench.students.interface import StudentConfig, StudentData, StudentTrainer
from patebench.students.supervised import NetworkTrainer
from patebench.students.table_regression import fitted

_RECIPE = replace(PLAIN, learning_rate=3e-3, batch=64)
#: Target for the number of images seen in training, and the least and largest number of passes.
_LOOKS, _LEAST, _MOST = 180_000, 10, 60
#: Largest shift of a batch, in whole pixels: fractional shifts blur images, and batch normalisation would then learn
#: the statistics of blurred ones.
_PIXELS = 4
_WIDTHS = (32, 64, 128)


def trainer(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the trainer of a network on the whole pool. Draws from torch's global generator.

    Raises PatebenchError for a pool of tables, and without a table of noisy counts.
    """
    check_photographs("table-network", data.pool)
    targets = torch.from_numpy(np.exp(fitted(data, "table-network")(data.pool))).float()
    usual = min(max(_LEAST, _LOOKS // len(data.pool)), _MOST)
    recipe = replace(_RECIPE, epochs=config.epochs or usual)
    network = Network(build, recipe, data.classes)
    rows = np.arange(len(data.pool))
    fitting = network.begin(data.pool, rows, seed=seed, loss=partial(cross_entropy, targets))
    return MirrorTrainer(network, fitting, "mirror-cnn", "own", recipe.epochs)


def check_photographs(method: str, pool: NDArray[Any]) -> None:
    """Refuse a pool of tables for a `method` that needs images; raises PatebenchError."""
    if pool.ndim != 4:
        raise PatebenchError(
            f"the student method '{method}' needs images, but the samples of the pool are rows of a table; use "
            "table-regression"
        )


class MirrorTrainer(NetworkTrainer):
    """Trainer of a network that predicts by the mean over an image and its mirror image."""

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        one, other = super().log_probabilities(x), super().log_probabilities(mirrored(x))
        mean: NDArray[np.float64] = np.logaddexp(one, other) - np.log(2)
        return mean


def mirrored(x: NDArray[Any]) -> NDArray[Any]:
    """Return images (samples, channels, height, width) with left and right exchanged."""
    return np.ascontiguousarray(x[..., ::-1])


class RandomView(nn.Module):
    """Module that, in training, mirrors half of a batch and shifts all of it; draws from torch's global generator."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        turned = (torch.rand(len(x)) < 0.5).to(x.device)[:, None, None, None]
        wide = F.pad(torch.where(turned, x.flip(3), x), [_PIXELS] * 4, "reflect")
        down, across = torch.randint(2 * _PIXELS + 1, (2,)).tolist()
        moved = wide[:, :, down : down + x.shape[2], across : across + x.shape[3]]
        return moved.contiguous(memory_format=torch.channels_last)


def cross_entropy(targets: Tensor, logits: Tensor, rows: Tensor) -> Tensor:
    """Return the mean of −Σ_class targets · ln Pr[class] at the positions `rows` of `targets` (samples, classes)."""
    return -(targets.to(logits.device)[rows] * logits.log_softmax(1)).sum(1).mean()


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return an untrained network for images of `shape`: three convolutions with batch normalisation, and one layer."""
    layers: list[nn.Module] = [RandomView()]
    width, high, wide = image_shape("mirror-cnn", shape)
    for channels in _WIDTHS:
        layers += [nn.Conv2d(width, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
        layers += [nn.MaxPool2d(2, ceil_mode=True)]
        width, high, wide = channels, (high + 1) // 2, (wide + 1) // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * high * wide, classes))
