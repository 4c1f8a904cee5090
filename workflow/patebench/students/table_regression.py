"""A linear student of a whole table of noisy counts: regression, one half of which the table holds, the other the pool.

Where each record votes on its nearest queries, its votes say where it lies: v (queries), of which as many are 1 as it
has votes. The table is Σ v·y' over private records and their classes y, and noise. If the class of a record with
features f follows from them as y = s + W'f does, where s are the shares of the classes in all records, the table less
what these explain, n · mean of v·s', is expected to be

    n · A · W,   A = mean of v·f' ,

and A, how votes and features go together, is as well that of the pool, whose samples could vote as records do. So W is
found without asking for anything else: least squares of the table on n·A, with the noise that is known
(sufficient statistics with noise, as in Foulds et al. 2016, *On the theory and practice of privacy-preserving Bayesian
data analysis*, where the other half is private too and needs noise of its own).

A row of the table differs from n·A·W by more than its noise. The records are a sample, no class follows from features
for sure, and A is a mean over the pool alone. All three are sums of independent votes, and so have the covariance of
votes, Σ, which is that of the pool again. So the error is N(0, σ² + c·Σ), and W is N(0, τ²·spread of the features^2p)
beforehand. c, p and τ are those that make the table most likely (evidence; MacKay 1992, *Bayesian interpolation*). The
table is public, and so is all that is chosen by it.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.features.cells import belong
from patebench.models.learner import Progress
from patebench.students.interface import Features, NoisyTable, StudentConfig, StudentData, StudentTrainer
from patebench.students.supervised import EstimatorTrainer

Array = NDArray[np.float64]

#: What is tried of c, in what a sample of n records alone would have; of p; and of ln τ².
_ERRORS, _POWERS, _VARIANCES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0), (0.0, 0.5, 1.0), np.arange(-14.0, 14.0, 0.5)
#: Regression of 0 and 1 gives shares, which are drawn together: ln of a probability is so many times the share.
_SHARPNESS = 10.0


def trainer(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """The trainer of a regression, in one step: nothing is random, and there are no epochs."""
    learner = TableRegression(*needed(data, "table-regression"), data.classes)
    return EstimatorTrainer(learner, data.pool, data.labels, seed, "table-regression", "own")


def needed(data: StudentData, method: str) -> tuple[Features, NoisyTable]:
    """The features and the table that a method reads; PatebenchError where there are none."""
    if data.table is None or data.features is None:
        raise PatebenchError(
            f"the method '{method}' reads a noisy table of votes by public features; give it labels of a mechanism that"
            " releases one, of an ensemble of nearest-query with queries of its own"
        )
    return data.features, data.table


class TableRegression:
    """A learner: shares of the classes that are linear in the features."""

    def __init__(self, features: Features, table: NoisyTable, classes: int) -> None:
        self.features, self.table, self.classes = features, table, classes

    def fit(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, progress: Progress | None = None) -> None:
        """Find W for the pool `x` (samples, …); labels are not looked at."""
        self.weights = regression(np.asarray(self.features(x), dtype=np.float64), self.table)
        if progress:
            progress(1, 1)

    def shares(self, x: NDArray[Any]) -> Array:
        """What share of samples like these each class has (samples, classes); where it is linear, not in 0 … 1."""
        found: Array = self.features(x) @ self.weights + overall(self.table)
        return found

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.shares(x).argmax(1)
        return found

    def log_probabilities(self, x: NDArray[Any]) -> Array:
        raised = _SHARPNESS * self.shares(x)
        found: Array = raised - np.logaddexp.reduce(raised, axis=1, keepdims=True)
        return found

    def save(self, path: Any) -> None:
        raise PatebenchError("a regression of a table is no model that can be kept; set keep_weights: false")


def overall(table: NoisyTable) -> Array:
    """What share of all records each class has (classes,): that of all votes, beside whose number noise is small."""
    votes = np.maximum(table.counts.sum(axis=0), 0)
    found: Array = votes / votes.sum() if votes.any() else np.full(len(votes), 1 / len(votes))
    return found


def regression(features: Array, table: NoisyTable) -> Array:
    """W (features, classes), from the pool's `features` (samples, features) and the table."""
    votes = _votes(features, table)
    together = votes.T @ features
    own = votes[table.queries, np.arange(len(table.queries))]
    together -= own[:, None] * features[table.queries]  # a query lies nearest to itself, and no record does
    scaled = together / len(features) * table.records
    covariance, axes = np.linalg.eigh(np.cov(votes.T, bias=True).reshape(2 * (len(table.queries),)))
    each = (votes.sum(axis=0) - own) / len(features) * table.records
    rest = table.counts - each[:, None] * overall(table)
    centred = rest - rest.mean(axis=1, keepdims=True)
    given = _Turned(axes.T @ scaled, axes.T @ centred, np.maximum(covariance, 0), features.std(axis=0))
    found = (_fit(given, table, error, power) for error, power in product(_ERRORS, _POWERS))
    return max(found, key=lambda fit: fit[0])[1]


def _votes(features: Array, table: NoisyTable) -> Array:
    """How the samples of the pool would vote (samples, queries): 0 and 1."""
    place = belong(features, features, table.queries, table.neighbours)
    votes = np.zeros((len(features), len(table.queries)))
    np.put_along_axis(votes, place, 1.0, axis=1)
    return votes


@dataclass(frozen=True, eq=False)
class _Turned:
    """n·A (queries, features) and the table (queries, classes) along the axes of the votes' covariance."""

    together: Array
    table: Array
    covariance: Array
    spread: Array


def _fit(given: _Turned, table: NoisyTable, error: float, power: float) -> tuple[float, Array]:
    """ln Pr[table] at the best τ, and W there.

    Each row's counts less their mean have one direction less than there are classes, of which a vote has the length
    1 − 1/classes, shared by all of them: 1/classes each.
    """
    classes = given.table.shape[1]
    variance = table.variance + error * table.records / classes * given.covariance
    prior = given.spread**power
    left = given.together * prior / np.sqrt(variance)[:, None]
    right = given.table / np.sqrt(variance)[:, None]
    squares, axes = np.linalg.eigh(left.T @ left)
    kept = squares > squares[-1] * 1e-10
    squares, axes = squares[kept], axes[:, kept]
    along = axes.T @ (left.T @ right) / np.sqrt(squares)[:, None]
    rest = np.square(right).sum() - np.square(along).sum() + (classes - 1) * np.log(variance).sum()
    strength = np.exp(_VARIANCES)[:, None] * squares
    lengths = np.square(along).sum(axis=1)
    evidence = -0.5 * ((classes - 1) * np.log1p(strength).sum(axis=1) + (lengths / (1 + strength)).sum(axis=1) + rest)
    best = int(evidence.argmax())
    shrunk = strength[best] / (1 + strength[best]) / np.sqrt(squares)
    return float(evidence[best]), prior[:, None] * (axes @ (shrunk[:, None] * along))
