"""Learners without a network: classifiers of scikit-learn, and ridge regression of features.

Training recipes have no effect on them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.progress import silent
from patebench.models import Progress
from patebench.models.recipes import Recipe
from patebench.models.scaling import Columns

Array = NDArray[np.float64]

#: Suppresses warnings about overflow in the sum that scikit-learn computes to search for NaN.
_quiet_sums = np.errstate(over="ignore", invalid="ignore")


class Estimator:
    """Learner that wraps a scikit-learn classifier; samples are flattened, and images scaled to [0, 1].

    `build` returns an unfitted classifier for a seed. If `standardise` is True, columns are standardised by the mean
    and standard deviation of the training samples.
    """

    def __init__(self, build: Callable[[int], Any], classes: int, *, standardise: bool = False) -> None:
        self.build, self.classes, self.standardise = build, classes, standardise

    @_quiet_sums
    def fit(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, progress: Progress = silent) -> None:
        # A shard may contain only one class, for which scikit-learn's linear models raise an error.
        self.constant = int(y[0]) if (y == y[0]).all() else None
        if self.constant is None:
            self.scaler = Columns.of(_flatten(x)) if self.standardise else None
            self.model = self.build(seed % 2**32)
            self.model.fit(self._inputs(x), y)
        progress(1, 1)

    @_quiet_sums
    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        if self.constant is not None:
            return np.full(len(x), self.constant, np.int64)
        return self.model.predict(self._inputs(x)).astype(np.int64)

    @_quiet_sums
    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        log_p = np.full((len(x), self.classes), -np.inf)
        if self.constant is not None:
            log_p[:, self.constant] = 0.0
        else:
            with np.errstate(divide="ignore"):
                log_p[:, self.model.classes_.astype(int)] = np.log(self.model.predict_proba(self._inputs(x)))
        return log_p

    def _inputs(self, x: NDArray[Any]) -> NDArray[np.float32]:
        flat = _flatten(x)
        return self.scaler.transform(flat) if self.scaler else flat


def _flatten(x: NDArray[Any]) -> NDArray[np.float32]:
    scale = 255.0 if x.dtype == np.uint8 else 1.0
    return (x.reshape(len(x), -1) / scale).astype(np.float32)


def logistic(recipe: Recipe, classes: int) -> Estimator:
    """Return an unfitted multinomial logistic regression on standardised features; `recipe` has no effect."""

    def build(seed: int) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000, C=0.1)

    return Estimator(build, classes, standardise=True)


def random_forest(recipe: Recipe, classes: int) -> Estimator:
    """Return an unfitted random forest of 100 trees; `recipe` has no effect."""

    def build(seed: int) -> Any:
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(n_estimators=100, random_state=seed, n_jobs=1)

    return Estimator(build, classes)


#: Candidate penalties, for feature vectors of at most unit length.
_PENALTIES = 10.0 ** np.arange(-3, 2.5, 0.5)
#: Factor from shares predicted by regression to logits.
_SHARPNESS = 10.0


class LinearHead:
    """Learner by ridge regression from an encoder's feature vectors (samples, features) to classes.

    A teacher has fewer samples than there are features, so the regression is solved in its dual form, over the samples.
    The penalty is the one with the least leave-one-out error, which has a closed form (Hastie, Tibshirani & Friedman
    2009, *The Elements of Statistical Learning*, section 7.10). No random numbers are drawn.
    """

    def __init__(self, recipe: Recipe, classes: int) -> None:
        self.classes = classes

    def fit(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, progress: Progress = silent) -> None:
        vectors = x.reshape(len(x), -1).astype(np.float64)
        self.mean, self.shares = vectors.mean(axis=0), np.bincount(y, minlength=self.classes) / len(y)
        centred, targets = vectors - self.mean, np.eye(self.classes)[y] - self.shares
        variance, axes = np.linalg.eigh(centred @ centred.T)
        variance, projected = np.maximum(variance, 0), axes.T @ targets
        errors = [self._leave_one_out_error(variance, axes, projected, targets, penalty) for penalty in _PENALTIES]
        best = _PENALTIES[int(np.argmin(errors))]
        self.weights: Array = centred.T @ (axes @ (projected / (variance + best)[:, None]))
        self.absent = self.shares == 0
        progress(1, 1)

    @staticmethod
    def _leave_one_out_error(variance: Array, axes: Array, projected: Array, targets: Array, penalty: float) -> float:
        """Return the mean squared leave-one-out error of ridge regression with this `penalty`.

        `targets` (samples, classes) are centred one-hot labels. `variance` (samples,) and `axes` (samples, samples) are
        the eigenvalues and eigenvectors of X·Xᵀ, where X are the centred samples. `projected` (samples, classes) is
        axesᵀ·targets.
        """
        kept = variance / (variance + penalty)
        leverage = np.square(axes) @ kept + 1 / len(targets)  # the fitted mean is one parameter
        residuals = (targets - axes @ (kept[:, None] * projected)) / np.maximum(1 - leverage, 1e-9)[:, None]
        return float(np.square(residuals).mean())

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        return self.log_probabilities(x).argmax(axis=1)

    def log_probabilities(self, x: NDArray[Any]) -> Array:
        logits = _SHARPNESS * ((x.reshape(len(x), -1) - self.mean) @ self.weights + self.shares)
        logits[:, self.absent] = -np.inf
        return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
