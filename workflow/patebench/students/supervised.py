"""The plainest student: a learner fitted to the released labels, the rest of the pool unused."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from patebench.core.errors import PatebenchError
from patebench.models.learner import Learner, epochs_of, make
from patebench.models.network import Fitting, Network, Standardise
from patebench.students.lesson import Approach, Lesson, Training

RECIPE = "modern"


def start(lesson: Lesson, approach: Approach, seed: int) -> Training:
    """A learner, of any model and recipe, for those samples of the pool that have a label."""
    model, recipe = names(lesson, approach)
    learner = make(model, recipe, classes=lesson.classes, epochs=approach.epochs)
    facts = model, recipe, epochs_of(recipe, approach.epochs)
    x, y = lesson.pool[lesson.answered], lesson.labels[lesson.answered]
    if isinstance(learner, Network):
        return OfNetwork(learner, learner.begin(x, y, seed=seed), *facts)
    return OfEstimator(learner, x, y, seed, *facts)


def names(lesson: Lesson, approach: Approach) -> tuple[str, str]:
    """The model and recipe asked for, or those for the pool's shape."""
    return approach.model or ("small-cnn" if lesson.pool.ndim == 4 else "mlp"), approach.recipe or RECIPE


def networks_only(learner: Learner, model: str) -> Network:
    """The learner, if it is a network."""
    if not isinstance(learner, Network):
        raise PatebenchError(f"the model '{model}' is no network, and this method needs one; use small-cnn or mlp")
    return learner


def untrained(model: str, pool: NDArray[Any], outputs: int) -> tuple[nn.Module, Standardise]:
    """A network of the registry for samples like the pool's, and what standardises samples by the pool."""
    learner = networks_only(make(model, RECIPE, classes=outputs), model)
    net = learner.build(tuple(pool.shape[1:]), outputs).to(learner.device)
    if pool.ndim == 4:
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net, Standardise(torch.from_numpy(pool)).to(learner.device)


class OfNetwork:
    """A network's fit, epoch by epoch."""

    def __init__(self, network: Network, fitting: Fitting, model: str, recipe: str, epochs: int) -> None:
        self.network, self.fitting, self.model, self.recipe, self.epochs = network, fitting, model, recipe, epochs
        self.settings: dict[str, Any] = {}

    def epoch(self) -> dict[str, float]:
        return {"loss": self.fitting.epoch()}

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        self.network.net = self.fitting.result
        return self.network.log_probabilities(x)

    def state(self) -> dict[str, Any]:
        return self.fitting.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.fitting.restore(state)


class OfEstimator:
    """A learner that is fitted in one go, whatever the recipe says of epochs."""

    epochs = 1

    def __init__(
        self, learner: Learner, x: NDArray[Any], y: NDArray[np.int64], seed: int, model: str, recipe: str, _: int
    ) -> None:
        self.learner, self.x, self.y, self.seed, self.model, self.recipe = learner, x, y, seed, model, recipe
        self.settings: dict[str, Any] = {}

    def epoch(self) -> dict[str, float]:
        self.learner.fit(self.x, self.y, seed=self.seed)
        return {}

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        return self.learner.log_probabilities(x)

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        self.epoch()
