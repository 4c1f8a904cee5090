"""A network trained on ImageNet learns the predictions of a regression of the noisy table, for photographs.

As in `table_network.py`, the regression gives every sample of the pool the probabilities of its classes. All layers of
EfficientNet-Lite0 are trained on them. From the second epoch on, half of a sample's target is the mean of the network's
own predictions for earlier views of it (temporal ensembling; Laine & Aila 2017), which are more often right than the
regression. ImageNet, the pool and the table are public, so this costs no privacy.
"""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from patebench.models.efficientnet_lite import CHANNELS, enlarge, pretrained
from patebench.models.network import Fitting, Network
from patebench.models.recipes import PLAIN
from patebench.students.interface import StudentConfig, StudentData, StudentTrainer
from patebench.students.table_network import MirrorTrainer, RandomView, check_photographs, cross_entropy
from patebench.students.table_regression import fitted

_RECIPE = replace(PLAIN, learning_rate=5e-4, batch=64, epochs=6, weight_decay=0.05)
#: Width and height to which images are enlarged, in pixels.
_SIDE = 96
#: Share of the network's own predictions in a target, and weight of the newest prediction in their mean.
_OWN, _NEWEST = 0.5, 0.4
#: Mean and standard deviation of grey levels in standardised images, for the network's first layer.
_MEAN, _SPREAD = 127.0, 64.0


def trainer(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the trainer of the network on the whole pool. Draws from torch's global generator.

    Raises PatebenchError for a pool of tables, without a table of noisy counts, and if the weights are not installed.
    """
    check_photographs("table-finetuning", data.pool)
    targets = torch.from_numpy(np.exp(fitted(data, "table-finetuning")(data.pool))).float()
    recipe = replace(_RECIPE, epochs=config.epochs or _RECIPE.epochs)
    network, goals = Network(build, recipe, data.classes), _Goals(targets)
    fitting = network.begin(data.pool, np.arange(len(data.pool)), seed=seed, loss=goals.loss)
    return _Finetuner(network, fitting, goals, recipe.epochs)


class _Goals:
    """Targets (samples, classes): mixtures of `given` probabilities and the network's mean earlier predictions."""

    def __init__(self, given: Tensor) -> None:
        self.given, self.own, self.seen = given, given.clone(), torch.zeros(len(given), dtype=torch.bool)

    def loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Return the mean cross-entropy of the samples `rows`, and store the predictions of this view of them."""
        rows, predicted = rows.cpu(), logits.detach().softmax(1).cpu()
        seen = self.seen[rows][:, None]
        targets = torch.where(seen, torch.lerp(self.given[rows], self.own[rows], _OWN), self.given[rows])
        self.own[rows] = torch.where(seen, torch.lerp(self.own[rows], predicted, _NEWEST), predicted)
        self.seen[rows] = True
        return cross_entropy(targets, logits, torch.arange(len(rows), device=logits.device))

    def state(self) -> dict[str, Any]:
        return {"own": self.own, "seen": self.seen}

    def restore(self, state: dict[str, Any]) -> None:
        self.own, self.seen = state["own"], state["seen"]


class _Finetuner(MirrorTrainer):
    """Trainer of the network whose state includes the mean predictions in its targets."""

    def __init__(self, network: Network, fitting: Fitting, goals: _Goals, epochs: int) -> None:
        super().__init__(network, fitting, "efficientnet-lite0", "own", epochs)
        self.state = lambda: {"fitting": fitting.state(), "goals": goals.state()}
        self.restore = partial(_restore, fitting, goals)


def _restore(fitting: Fitting, goals: _Goals, state: dict[str, Any]) -> None:
    fitting.restore(state["fitting"])
    goals.restore(state["goals"])


class _Pretrained(nn.Module):
    """Network for standardised images of any size, with a new last layer for `classes`."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body, self.head = deepcopy(pretrained()), nn.Linear(CHANNELS, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body.means(enlarge(x * _SPREAD + _MEAN, _SIDE)))
        return logits


def build(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return the pretrained network for images of `shape`, with random views in training."""
    return nn.Sequential(RandomView(), _Pretrained(classes))
