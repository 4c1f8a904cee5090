"""Students for photographs: networks that learn from a released table of noisy vote counts.

First, a regression of the table on fixed features (`table_regression.py`) predicts class probabilities for every sample
of the pool. Then, a network learns these probabilities (distillation; Hinton et al. 2015) from shifted and mirrored
images. The network becomes more accurate than the regression.

`trainer` trains a small convolutional network. `finetuning` trains all layers of EfficientNet-Lite0, which was
pretrained on ImageNet. ImageNet, the pool and the table are public, so the networks cost no privacy.
"""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.models import image_shape
from patebench.models.efficientnet_lite import CHANNELS, enlarge, pretrained
from patebench.models.network import Build, Loss, Network
from patebench.models.recipes import PLAIN, Recipe
from patebench.students.interface import StudentConfig, StudentData, StudentTrainer
from patebench.students.supervised import NetworkTrainer
from patebench.students.table_regression import fitted

_RECIPE = replace(PLAIN, learning_rate=3e-3, batch=64)
#: Target for the number of images seen in training, and smallest and largest number of epochs. The number of epochs is
#: the target divided by the size of the pool, limited to this range.
_LOOKS, _LEAST, _MOST = 180_000, 10, 60
#: Largest shift of a batch, in whole pixels: fractional shifts blur images, and batch normalisation would then learn
#: the statistics of blurred ones.
_PIXELS = 4
_WIDTHS = (32, 64, 128)

_FINETUNING = replace(PLAIN, learning_rate=5e-4, batch=64, epochs=6, weight_decay=0.05)
#: Width and height of the enlarged images for the pretrained network, in pixels.
_SIDE = 96
#: Weight of the network's averaged predictions in a target (the rest is the regression), and weight of the newest
#: prediction in this moving average.
_OWN, _NEWEST = 0.5, 0.4
#: Mean and standard deviation of grey levels in standardised images, for the pretrained network's first layer.
_MEAN, _SPREAD = 127.0, 64.0


def trainer(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return a trainer that fits a small convolutional network to class probabilities of all samples of the pool.

    A regression of the released table predicts these probabilities (`table_regression.py`). Random draws come from
    torch's global generator. Raises PatebenchError if the samples are not images, or if no table of noisy counts was
    released.
    """
    loss = partial(cross_entropy, _regression_targets(data, "table-network"))
    default_epochs = min(max(_LEAST, _LOOKS // len(data.pool)), _MOST)
    recipe = replace(_RECIPE, epochs=config.epochs or default_epochs)
    return MirrorTrainer(data, "mirror-cnn", build, recipe, loss, seed)


def finetuning(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return a trainer that fine-tunes EfficientNet-Lite0, pretrained on ImageNet, on class probabilities of the pool.

    A regression of the released table predicts these probabilities (`table_regression.py`). Raises PatebenchError if
    the samples are not images, if no table of noisy counts was released, or if the weights of the network are not
    installed.
    """
    targets = _regression_targets(data, "table-finetuning")
    return Finetuner(data, replace(_FINETUNING, epochs=config.epochs or _FINETUNING.epochs), targets, seed)


def _regression_targets(data: StudentData, method: str) -> Tensor:
    """Return class probabilities (samples, classes) of the pool, predicted by a regression of the released table.

    `method` is the name of the student method in error messages.
    """
    if data.pool.ndim != 4:
        raise PatebenchError(
            f"the student method '{method}' needs images, but the samples of the pool are rows of a table; use "
            "'table-regression'"
        )
    return torch.from_numpy(np.exp(fitted(data, method)(data.pool))).float()


class MirrorTrainer(NetworkTrainer):
    """Trainer of a network on the whole pool; predictions are averaged over an image and its mirror image."""

    def __init__(self, data: StudentData, model: str, build: Build, recipe: Recipe, loss: Loss, seed: int) -> None:
        network = Network(build, recipe, data.classes)
        fitting = network.begin(data.pool, np.arange(len(data.pool)), seed=seed, loss=loss)
        super().__init__(network, fitting, model, "own")

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        mirrored = np.ascontiguousarray(x[..., ::-1])
        one, other = super().log_probabilities(x), super().log_probabilities(mirrored)
        return np.logaddexp(one, other) - np.log(2)


class Finetuner(MirrorTrainer):
    """Trainer that fine-tunes a pretrained network on class probabilities `targets` and on its own earlier predictions.

    `targets` (samples, classes) are predicted by the regression of the released table. The first epoch uses them alone.
    Later epochs use the mean of `targets` and of the network's averaged predictions for earlier views of the same
    sample (temporal ensembling; Laine & Aila 2017).
    """

    def __init__(self, data: StudentData, recipe: Recipe, targets: Tensor, seed: int) -> None:
        self.targets, self.averages, self.seen = targets, targets.clone(), torch.zeros(len(targets), dtype=torch.bool)
        super().__init__(data, "efficientnet-lite0", build_pretrained, recipe, self._loss, seed)

    def _loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Return the mean cross-entropy of `logits` (batch, classes) to the training targets of the same samples.

        `rows` (batch,) are the positions of these samples in the pool. The stored averages of the network's earlier
        predictions are updated with `logits`.
        """
        rows, predicted = rows.cpu(), logits.detach().softmax(1).cpu()
        seen = self.seen[rows][:, None]
        mixed = torch.where(seen, torch.lerp(self.targets[rows], self.averages[rows], _OWN), self.targets[rows])
        self.averages[rows] = torch.where(seen, torch.lerp(self.averages[rows], predicted, _NEWEST), predicted)
        self.seen[rows] = True
        return cross_entropy(mixed, logits, torch.arange(len(rows), device=logits.device))

    def state(self) -> dict[str, Any]:
        return {"fitting": super().state(), "goals": {"own": self.averages, "seen": self.seen}}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state["fitting"])
        self.averages, self.seen = state["goals"]["own"], state["goals"]["seen"]


class RandomView(nn.Module):
    """Module that, in training, mirrors each image with probability 1/2, and shifts all images of a batch equally.

    It draws from torch's global generator.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        mirrored = (torch.rand(len(x)) < 0.5).to(x.device)[:, None, None, None]
        wide = F.pad(torch.where(mirrored, x.flip(3), x), [_PIXELS] * 4, "reflect")
        down, across = torch.randint(2 * _PIXELS + 1, (2,)).tolist()
        moved = wide[:, :, down : down + x.shape[2], across : across + x.shape[3]]
        return moved.contiguous(memory_format=torch.channels_last)


def cross_entropy(targets: Tensor, logits: Tensor, rows: Tensor) -> Tensor:
    """Return the mean cross-entropy of a batch's `logits` (batch, classes) to its target probabilities.

    `targets` (samples, classes) are the target probabilities of all samples, and `rows` (batch,) are the rows of the
    batch in this array.
    """
    return -(targets.to(logits.device)[rows] * logits.log_softmax(1)).sum(1).mean()


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return an untrained network for images of `shape`: three batch-normalised convolutions and a linear layer."""
    layers: list[nn.Module] = [RandomView()]
    width, high, wide = image_shape("mirror-cnn", shape)
    for channels in _WIDTHS:
        layers += [nn.Conv2d(width, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
        layers += [nn.MaxPool2d(2, ceil_mode=True)]
        width, high, wide = channels, (high + 1) // 2, (wide + 1) // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * high * wide, classes))


class Pretrained(nn.Module):
    """EfficientNet-Lite0 for standardised images, pretrained on ImageNet; a new last layer has `classes` outputs."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body, self.head = deepcopy(pretrained()), nn.Linear(CHANNELS, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body.means(enlarge(x * _SPREAD + _MEAN, _SIDE)))


def build_pretrained(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return `RandomView`, which changes images in training, followed by `Pretrained` with `classes` outputs.

    `shape` is not used.
    """
    return nn.Sequential(RandomView(), Pretrained(classes))
