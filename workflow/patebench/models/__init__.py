"""Learners: anything that fits labelled samples and predicts labels can be a teacher, a student or a baseline.

PATE treats its models as black boxes, so a learner is any class with the methods of `learner.Learner`. Networks differ
only in their architecture and share one training loop (`network.py`).

Registry facts of a model:

- `by_recipe` (default True): a recipe trains it, in epochs;
- `compressible` (default False): it can be built with fewer parameters;
- `images` (default False): it reads only images;
- `on_queries` (default False): it only votes on given queries, by public features (`features/cells.py`).
"""

from patebench.core.errors import PatebenchError
from patebench.core.registry import Registry, called_with, instance_of

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
MODELS.add("nearest-query", "patebench.features.cells:record_votes", on_queries=True, by_recipe=False)

RECIPES = Registry("recipe", "patebench.recipes", instance_of("patebench.models.recipes:Recipe"))
RECIPES.add("paper", "patebench.models.recipes:PAPER")
RECIPES.add("modern", "patebench.models.recipes:MODERN")
RECIPES.add("fast", "patebench.models.recipes:FAST")
RECIPES.add("plain", "patebench.models.recipes:PLAIN")
RECIPES.add("modern-oversampled", "patebench.models.recipes:MODERN_OVERSAMPLED")
RECIPES.add("plain-oversampled", "patebench.models.recipes:PLAIN_OVERSAMPLED")


def on_queries(model: str) -> bool:
    """Return True if `model` only votes on given queries, by public features; PatebenchError for an unknown name."""
    return bool(MODELS.fact(model, "on_queries", False))


def by_recipe(model: str) -> bool:
    """Return True if a recipe trains `model`, in epochs; PatebenchError for an unknown name."""
    return bool(MODELS.fact(model, "by_recipe", True))


def check_input(model: str, shape: tuple[int, ...]) -> None:
    """Refuse samples of `shape`, (features,) or (channels, height, width), for a model that reads only images."""
    if MODELS.fact(model, "images", False):
        check_images(model, shape)


def check_images(model: str, shape: tuple[int, ...]) -> None:
    """Refuse samples of `shape` for the network `model` unless they are images of at least 4×4 pixels."""
    if len(shape) != 3 or min(shape[1:]) < 4:
        raise PatebenchError(
            f"the model '{model}' reads images of at least 4×4 pixels, and these samples have shape {shape}; "
            "use mlp, logistic or random-forest",
            code="shape",
        )


def check_compressible(model: str | None) -> None:
    """Raise PatebenchError for None or a model that cannot be built with fewer parameters."""
    if model is None or not MODELS.fact(model, "compressible", False):
        able = " or ".join(name for name in MODELS if MODELS.fact(name, "compressible", False))
        raise PatebenchError(f"needs a network that can be made smaller, model: {able}")
