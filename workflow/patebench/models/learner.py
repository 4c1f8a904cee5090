"""Interface of learners, and the function that creates a learner from the name of its model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.models import MODELS, RECIPES, on_queries
from patebench.models.recipes import Recipe

#: Callback that a learner calls in training, with the number of finished epochs and the number of all epochs.
Progress = Callable[[int, int], None]


class Learner(Protocol):
    """Model that is fitted once and then predicts labels."""

    def fit(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, progress: Progress | None = None) -> None:
        """Fit the model to samples `x`, (samples, …) uint8 images or float tables, with labels `y` (samples,)."""

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Return labels (samples,) for samples `x`, each in 0 … classes − 1."""

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return log-probabilities (samples, classes) for samples `x`; −∞ for a class without training samples."""


def make_learner(model: str, recipe: str, *, classes: int, epochs: int | None = None) -> Learner:
    """Return an unfitted learner: the registered `model`, trained by the registered `recipe`.

    `epochs` replaces the recipe's number of epochs. Raises PatebenchError for an unknown name, a model that only votes
    on queries (`on_queries`), or epochs below 1.
    """
    if on_queries(model):
        raise PatebenchError(
            f"the model '{model}' can only be a teacher, as it predicts nothing but votes on queries; use another model"
        )
    chosen: Recipe = RECIPES.load(recipe)
    learner: Learner = MODELS.load(model)(replace(chosen, epochs=epochs_of(recipe, epochs)), classes)
    return learner


def epochs_of(recipe: str, epochs: int | None) -> int:
    """Return the number of training epochs: `epochs`, or that of the registered `recipe` if `epochs` is None.

    Raises PatebenchError for an unknown recipe or epochs below 1.
    """
    if epochs is not None and epochs < 1:
        raise PatebenchError(f"epochs = {epochs} is too small; use at least 1")
    return epochs or int(RECIPES.load(recipe).epochs)
