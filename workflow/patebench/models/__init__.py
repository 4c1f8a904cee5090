"""Learners: anything that fits labelled samples and predicts labels can be a teacher, a student or a baseline.

PATE treats its models as black boxes, so a learner is any class with the methods of `learner.Learner`. Networks differ
only in their architecture and share one training loop (`network.py`, `recipes.py`).

A model with the fact `on_queries` is no learner: it votes on given queries by public features (`nearest_query.py`).
The fact `by_recipe` (default True) says whether a model is trained by a recipe, in epochs, and
`compressible` (default False) whether it can also be made with fewer parameters.
"""

from patebench.core.errors import PatebenchError
from patebench.core.registry import Registry, called_with, instance_of

MODELS = Registry("model", "patebench.models", called_with("recipe", "classes"))
MODELS.add("small-cnn", "patebench.models.small_cnn:learner")
MODELS.add("student-cnn", "patebench.models.student_cnn:learner")
MODELS.add("tanh-cnn", "patebench.models.tanh_cnn:learner")
MODELS.add("paper-cnn", "patebench.models.paper_cnn:learner")
MODELS.add("paper-cnn-deep", "patebench.models.paper_cnn_deep:learner")
MODELS.add("conv-middle", "patebench.models.conv_net:middle", compressible=True)
MODELS.add("conv-small", "patebench.models.conv_net:small", compressible=True)
MODELS.add("mlp", "patebench.models.mlp:learner")
MODELS.add("logistic", "patebench.models.logistic:learner", by_recipe=False)
MODELS.add("random-forest", "patebench.models.random_forest:learner", by_recipe=False)
MODELS.add("nearest-query", "patebench.models.nearest_query:learner", on_queries=True, by_recipe=False)

RECIPES = Registry("recipe", "patebench.recipes", instance_of("patebench.models.recipes:Recipe"))
RECIPES.add("paper", "patebench.models.recipes:PAPER")
RECIPES.add("modern", "patebench.models.recipes:MODERN")
RECIPES.add("fast", "patebench.models.recipes:FAST")
RECIPES.add("plain", "patebench.models.recipes:PLAIN")
RECIPES.add("modern-oversampled", "patebench.models.recipes:MODERN_OVERSAMPLED")
RECIPES.add("plain-oversampled", "patebench.models.recipes:PLAIN_OVERSAMPLED")


def on_queries(model: str) -> bool:
    """Whether `model` votes on given queries alone, by public features; PatebenchError for an unknown name."""
    return bool(MODELS.fact(model, "on_queries", False))


def by_recipe(model: str) -> bool:
    """Whether `model` is trained by a recipe, in epochs; PatebenchError for an unknown name."""
    return bool(MODELS.fact(model, "by_recipe", True))


def check_compressible(model: str | None) -> None:
    """PatebenchError for a model that can not be made with fewer parameters, or None."""
    if model is None or not MODELS.fact(model, "compressible", False):
        able = " or ".join(name for name in MODELS if MODELS.fact(name, "compressible", False))
        raise PatebenchError(f"needs a network that can be made smaller, model: {able}")
