"""Learners: the models of teachers, students and baselines, with their training recipes.

PATE treats models as black boxes, so a learner is any class with the methods of `Learner`. Networks differ only in
their architecture and share one training loop (`network.py`).

The registry of models stores these facts about each model:

- `by_recipe` (default True): the model is trained in epochs, with the settings of a recipe (`recipes.py`)
- `compressible` (default False): the model can be built with fewer parameters
- `images` (default False): the model accepts only images
- `on_queries` (default False): nothing is trained, and each private record votes with its own label on queries
  (`features/cells.py`)
- `on_features` (default False): the model reads feature vectors of an encoder instead of samples
- `weighted` (default False): the votes of a model with `on_queries` have weights
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.progress import silent
from patebench.core.registry import Registry, called_with, instance_of
from patebench.models.recipes import Recipe

MODELS = Registry("model", "patebench.models", called_with("recipe", "classes"))
MODELS.add("small-cnn", "patebench.models.architectures:SMALL_CNN", images=True)
MODELS.add("student-cnn", "patebench.models.architectures:STUDENT_CNN", images=True)
MODELS.add("tanh-cnn", "patebench.models.architectures:TANH_CNN", images=True)
MODELS.add("paper-cnn", "patebench.models.architectures:PAPER_CNN", images=True)
MODELS.add("paper-cnn-deep", "patebench.models.architectures:PAPER_CNN_DEEP", images=True)
MODELS.add("conv-middle", "patebench.models.architectures:CONV_MIDDLE", compressible=True, images=True)
MODELS.add("conv-small", "patebench.models.architectures:CONV_SMALL", compressible=True, images=True)
MODELS.add("mlp", "patebench.models.architectures:MLP")
MODELS.add("logistic", "patebench.models.estimators:logistic", by_recipe=False)
MODELS.add("random-forest", "patebench.models.estimators:random_forest", by_recipe=False)
MODELS.add("linear-head", "patebench.models.estimators:LinearHead", on_features=True, by_recipe=False)
MODELS.add("nearest-query", "patebench.features.cells:record_votes", on_queries=True, by_recipe=False)
MODELS.add("feature-votes", "patebench.features.cells:Directions", on_queries=True, weighted=True, by_recipe=False)

RECIPES = Registry("recipe", "patebench.recipes", instance_of("patebench.models.recipes:Recipe"))
RECIPES.add("paper", "patebench.models.recipes:PAPER")
RECIPES.add("modern", "patebench.models.recipes:MODERN")
RECIPES.add("fast", "patebench.models.recipes:FAST")
RECIPES.add("plain", "patebench.models.recipes:PLAIN")
RECIPES.add("modern-oversampled", "patebench.models.recipes:MODERN_OVERSAMPLED")
RECIPES.add("plain-oversampled", "patebench.models.recipes:PLAIN_OVERSAMPLED")


# Facts of a model, as described above.
on_queries = MODELS.flag("on_queries")
on_features = MODELS.flag("on_features")
weighted = MODELS.flag("weighted")
by_recipe = MODELS.flag("by_recipe", True)


def check_input(model: str, shape: tuple[int, ...]) -> None:
    """Raise PatebenchError if `model` accepts only images, and samples of this `shape` are not images."""
    if MODELS.fact(model, "images", False):
        image_shape(model, shape)


def image_shape(model: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return `shape` if it is the shape (channels, height, width) of images of at least 4×4 pixels.

    Otherwise raises PatebenchError, whose message names `model`.
    """
    if len(shape) != 3 or min(shape[1:]) < 4:
        raise PatebenchError(
            f"the model '{model}' requires images of at least 4×4 pixels, but these samples have shape {shape}; "
            "use mlp, logistic or random-forest",
            code="shape",
        )
    return shape


def check_compressible(model: str | None) -> None:
    """Raise PatebenchError if `model` is None or cannot be built with fewer parameters."""
    if model is None or not MODELS.fact(model, "compressible", False):
        able = " or ".join(name for name in MODELS if MODELS.fact(name, "compressible", False))
        if model is None:
            raise PatebenchError(f"compression needs a model, but none is given; choose the model {able}")
        raise PatebenchError(
            f"the model '{model}' cannot be built with fewer parameters; for compression choose the model {able}"
        )


#: Callback that a learner calls in training, with the number of finished epochs and the number of all epochs.
Progress = Callable[[int, int], None]


class Learner(Protocol):
    """Interface of all models: a learner is fitted once and then predicts labels."""

    def fit(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, progress: Progress = silent) -> None:
        """Fit the model to samples `x`, (samples, …) uint8 images or float tables, with labels `y` (samples,).

        `seed` seeds all random draws.
        """

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Return labels (samples,) for samples `x`, each in 0 … classes − 1."""

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return log-probabilities (samples, classes) for samples `x`; −∞ for a class without training samples."""


def make_learner(model: str, recipe: str, *, classes: int, epochs: int | None = None) -> Learner:
    """Return an unfitted learner: the registered `model`, trained by the registered `recipe`.

    `epochs`, if given, replaces the recipe's number of epochs. Raises PatebenchError for an unknown name, and for a
    model that votes on queries but cannot predict labels (`on_queries`).
    """
    if on_queries(model):
        raise PatebenchError(
            f"the model '{model}' is for teachers only: it votes on queries and cannot predict labels; use another"
            " model, such as mlp"
        )
    chosen: Recipe = RECIPES.load(recipe)
    return MODELS.load(model)(replace(chosen, epochs=epochs_of(recipe, epochs)), classes)


def epochs_of(recipe: str, epochs: int | None) -> int:
    """Return the number of training epochs: `epochs` or, if None, the number of the registered `recipe`."""
    return epochs or int(RECIPES.load(recipe).epochs)
