"""Learner for features of an encoder: ridge regression of the classes, with its penalty chosen by leave-one-out error.

A teacher has fewer samples than there are features, so the regression is solved among the samples (dual form), and the
leave-one-out residuals follow in closed form (Hastie, Tibshirani & Friedman 2009, *The Elements of Statistical
Learning*, section 7.10). No random numbers are drawn.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.models.learner import Progress
from patebench.models.recipes import Recipe

Array = NDArray[np.float64]

#: Penalties that are tried, for feature vectors of at most unit length.
_PENALTIES = 10.0 ** np.arange(-3, 2.5, 0.5)
#: Factor from a regression of 0 and 1 to ln of a probability.
_SHARPNESS = 10.0


class LinearHead:
    """Linear classifier of feature vectors (samples, features), trained in one step; a recipe has no effect on it."""

    def __init__(self, recipe: Recipe, classes: int) -> None:
        self.classes = classes

    def fit(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, progress: Progress | None = None) -> None:
        vectors = x.reshape(len(x), -1).astype(np.float64)
        self.mean, self.shares = vectors.mean(axis=0), np.bincount(y, minlength=self.classes) / len(y)
        centred, targets = vectors - self.mean, np.eye(self.classes)[y] - self.shares
        variance, axes = np.linalg.eigh(centred @ centred.T)
        variance, along = np.maximum(variance, 0), axes.T @ targets
        errors = [self._error(variance, axes, along, targets, penalty) for penalty in _PENALTIES]
        best = _PENALTIES[int(np.argmin(errors))]
        self.weights: Array = centred.T @ (axes @ (along / (variance + best)[:, None]))
        self.absent = self.shares == 0
        if progress:
            progress(1, 1)

    @staticmethod
    def _error(variance: Array, axes: Array, along: Array, targets: Array, penalty: float) -> float:
        """Return the mean squared leave-one-out error at a `penalty`; the mean counts as one fitted parameter."""
        kept = variance / (variance + penalty)
        leverage = np.square(axes) @ kept + 1 / len(targets)
        residuals = (targets - axes @ (kept[:, None] * along)) / np.maximum(1 - leverage, 1e-9)[:, None]
        return float(np.square(residuals).mean())

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        labels: NDArray[np.int64] = self.log_probabilities(x).argmax(axis=1)
        return labels

    def log_probabilities(self, x: NDArray[Any]) -> Array:
        logits = _SHARPNESS * ((x.reshape(len(x), -1) - self.mean) @ self.weights + self.shares)
        logits[:, self.absent] = -np.inf
        log_p: Array = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        return log_p
