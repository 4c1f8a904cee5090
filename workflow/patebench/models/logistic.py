"""Multinomial logistic regression from scikit-learn, on features standardised by the shard itself."""

from typing import Any

from patebench.models.estimator import Estimator
from patebench.models.recipes import Recipe


def build(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000, C=0.1)


def learner(recipe: Recipe, classes: int) -> Estimator:
    return Estimator(build, classes, standardise=True)
