"""The interface of a learner, and the function that makes one by name."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.models import MODELS, RECIPES, on_queries
from patebench.models.recipes import Recipe

#: Callback of a learner in training, called with (epochs done, total epochs).
Progress = Callable[[int, int], None]


class Learner(Protocol):
    """A model that is fitted once and then predicts labels."""

    def fit(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, progress: Progress | None = None) -> None:
        """Fit samples `x` (samples, …), of bytes for images or floats for tables, to labels `y` (samples,)."""

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Return labels (samples,) for samples `x`, each in 0 … classes − 1."""

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return log-probabilities (samples, classes) of the classes, −∞ for one that was never seen."""


def make_learner(model: str, recipe: str, *, classes: int, epochs: int | None = None) -> Learner:
    """Return an unfitted learner: the registered `model`, trained by the registered `recipe`.

    `epochs` replaces the recipe's number of epochs. Raises PatebenchError for an unknown name, a model that only votes
    on queries, or epochs below 1.
    """
    if on_queries(model):
        raise PatebenchError(f"'{model}' votes on queries and predicts no other sample; it can only be a teacher")
    chosen: Recipe = RECIPES.load(recipe)
    learner: Learner = MODELS.load(model)(replace(chosen, epochs=epochs_of(recipe, epochs)), classes)
    return learner


def epochs_of(recipe: str, epochs: int | None) -> int:
    """Return the number of training epochs: `epochs`, or that of the registered `recipe` if `epochs` is None.

    Raises PatebenchError for an unknown recipe or epochs below 1.
    """
    if epochs is not None and epochs < 1:
        raise PatebenchError(f"epochs = {epochs}; at least one is needed")
    return epochs or int(RECIPES.load(recipe).epochs)
