"""The plainest student: a learner fitted to the labelled samples, the rest of the pool unused."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.models.learner import Learner, epochs_of, make_learner
from patebench.models.network import Fitting, Network
from patebench.students.interface import StudentConfig, StudentData, StudentTrainer

RECIPE = "modern"


def trainer(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """The trainer of a learner, of any model and recipe, on the labelled samples of the pool.

    `seed` is of the learner; the initial weights of a network come from torch's global generator.
    """
    model, recipe = model_and_recipe(data, config)
    learner = make_learner(model, recipe, classes=data.classes, epochs=config.epochs)
    x, y = data.pool[data.labelled], data.labels[data.labelled]
    if isinstance(learner, Network):
        fitting = learner.begin(x, y, seed=seed)
        return NetworkTrainer(learner, fitting, model, recipe, epochs_of(recipe, config.epochs))
    return EstimatorTrainer(learner, x, y, seed, model, recipe)


def model_and_recipe(data: StudentData, config: StudentConfig) -> tuple[str, str]:
    """The model and recipe that `config` names, else small-cnn for images, mlp for tables, and `RECIPE`."""
    return config.model or ("small-cnn" if data.pool.ndim == 4 else "mlp"), config.recipe or RECIPE


class NetworkTrainer:
    """Trains a network of the registry, epoch by epoch."""

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


class EstimatorTrainer:
    """Fits a learner that has no epochs, in one call of `epoch`."""

    epochs = 1

    def __init__(
        self, learner: Learner, x: NDArray[Any], y: NDArray[np.int64], seed: int, model: str, recipe: str
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
