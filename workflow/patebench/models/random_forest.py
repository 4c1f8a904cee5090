"""A random forest from scikit-learn."""

from typing import Any

from patebench.models.estimator import Estimator
from patebench.models.recipes import Recipe


def build(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=100, random_state=seed, n_jobs=1)


def learner(recipe: Recipe, classes: int) -> Estimator:
    return Estimator(build, classes)
