"""Learn a linear student from a whole table of noisy counts (queries, classes), by least squares.

The student gives a sample with features f the class probabilities s + Wᵀf. The vector s (classes,) contains the class
shares of the private records. The matrix W (features, classes) is learnt as follows.

- n is the number of private records, k the number of classes, and v (queries,) the votes of one record.
- A (queries, features) is the mean of v·fᵀ. Samples of the public pool can vote like records, so A is computed from the
  pool.
- If classes did not depend on features (W = 0), the table would have the expectation n·m·sᵀ, where m is the mean of v.
  The difference of table and n·m·sᵀ has the expectation n·A·W. So W follows from the table alone, by least squares on
  n·A (sufficient statistics with noise, as in Foulds et al. 2016).
- The error of a column of the table is assumed to be N(0, σ²·I + c·Σ). Here σ² is the variance of the noise, Σ
  (queries, queries) is n/k times the covariance of v, and c ≥ 0 is a hyperparameter.
- The prior of a row of W is N(0, τ²·d²ᵖ·I). Here d is the standard deviation of the row's feature, and p and τ are
  hyperparameters.
- Of several values of c, p and τ, those with the largest evidence (marginal likelihood; MacKay 1992) are used.

All of these numbers are public.

If votes have weights, a sample's coordinates along principal axes of the pool (`Directions.along`) take the place of
the features f. Then v is a rotation of these coordinates, so A follows from their second moment. Derivation:
docs/explanation/proofs-systems.md, "Regression of a table".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.features.cells import Directions, queries_voted_on
from patebench.students.interface import NoisyTable, StudentConfig, StudentData, StudentTrainer
from patebench.students.supervised import LogProbabilities, OneStepTrainer

Array = NDArray[np.float64]

#: Values tried for c, p and ln τ². With c = 1, the error is that of a random sample of n records (`_largest_factor`
#: limits c).
_ERRORS, _POWERS, _VARIANCES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0), (0.0, 0.5, 1.0), np.arange(-14.0, 14.0, 0.5)
#: Values tried for p if votes have weights: spreads differ more between axes than between features.
_POWERS_OF_AXES = (*_POWERS, 1.5, 2.0, 3.0)
#: Factor from predicted shares to logits, since regression on 0 and 1 shrinks shares towards each other.
_SHARPNESS = 10.0


def trainer(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the trainer of the linear student, which `fitted` fits in one step, without random numbers."""
    return OneStepTrainer(lambda: fitted(data, "table-regression"), "table-regression")


def fitted(data: StudentData, method: str) -> LogProbabilities:
    """Fit a linear student to `data.table` and the pool; return its function from samples to log-probabilities.

    Log-probabilities have shape (samples, classes). The class probabilities of a linear student may lie outside 0 … 1,
    so they are multiplied by 10 (`_SHARPNESS`) and used as logits. `data.labels` are not read. Raises PatebenchError,
    with the name of the student method `method`, if features or table are missing.
    """
    table, features = data.table, data.features
    if table is None or features is None:
        raise PatebenchError(
            f"the method '{method}' needs noisy counts of votes on the nearest queries; set 'queries' in the"
            " experiment, and use the model 'nearest-query' for teachers and the mechanism sparse-gnmax or sparse-lnmax"
        )
    vectors = np.asarray(features(data.pool), dtype=np.float64)
    directions = Directions.of(vectors, table.queries) if table.weighted else None
    weights, shares = regression(vectors, table, directions)

    def log_probabilities(x: NDArray[Any]) -> Array:
        regressors = features(x) if directions is None else directions.along(features(x))
        logits: Array = _SHARPNESS * (regressors @ weights + shares)
        return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)

    return log_probabilities


def regression(features: Array, table: NoisyTable, directions: Directions | None = None) -> tuple[Array, Array]:
    """Return the weights W (features, classes) of the linear student, and the class shares s (classes,) of the records.

    The student gives a sample with features f the class probabilities s + Wᵀf. The function `candidates`, which takes
    the same arguments, computes several fits of W. The fit with the largest evidence (marginal likelihood) is returned.
    """
    fits, shares = candidates(features, table, directions)
    best = max(fits, key=lambda fit: fit.evidence.max())
    return best.weights(int(best.evidence.argmax())), shares


def candidates(
    features: Array, table: NoisyTable, directions: Directions | None = None
) -> tuple[Iterator["Fits"], Array]:
    """Return fits of a linear student for several values of its hyperparameters, and the class shares of the records.

    The docstring of the module describes the hyperparameters c, p and τ. The iterator yields one `Fits` for each pair
    of values of c and p. A `Fits` contains one fit for each value of τ. The class shares (classes,) are those of all
    private records.

    Parameters
    ----------
    features : (samples, features) float array
        Features of the pool.
    table : the released table of noisy counts
    directions
        None if votes have no weights. Otherwise, principal axes: the regression uses the coordinates
        `directions.along(features)` instead of `features`.
    """
    if directions is None:
        votes, totals = _pool_votes(features, table), np.ones(len(table.queries))
        own = votes[table.queries, np.arange(len(table.queries))]
    else:
        votes, totals = directions.votes(features), directions.total
        features, own = directions.along(features), np.zeros(len(table.queries))
    sums = np.maximum(totals @ table.counts, 0)  # votes per class, much larger than their noise
    shares = sums / sums.sum() if sums.any() else np.full(len(sums), 1 / len(sums))
    products = votes.T @ features
    products -= own[:, None] * features[table.queries]  # without each query's vote for itself, as no record is a query
    scaled = products / len(features) * table.records
    covariance, axes = np.linalg.eigh(np.cov(votes.T, bias=True).reshape(2 * (len(table.queries),)))
    expected = (votes.sum(axis=0) - own) / len(features) * table.records
    rest = table.counts - expected[:, None] * shares
    centred = rest - rest.mean(axis=1, keepdims=True)
    problem = _Problem(axes.T @ scaled, axes.T @ centred, np.maximum(covariance, 0), features.std(axis=0))
    errors = [error for error in _ERRORS if error <= _largest_factor(table.records, len(features))]
    powers = _POWERS if directions is None else _POWERS_OF_AXES
    return (_fit_weights(problem, table, error, power) for error, power in product(errors, powers)), shares


def _largest_factor(records: int, samples: int) -> float:
    """Return the upper limit of c, the factor of Σ in the covariance of the error (see the docstring of the module).

    `records` is the number of private records, and `samples` the number of samples in the pool.
    """
    # The error has three causes. Features do not determine classes, which contributes at most 1 to c. Records are a
    # random sample, and A is a mean over a pool of N samples; these two contribute at most 1 + n/N together. With a
    # larger c, the error alone could explain a table of few records.
    return 2 + records / samples


def _pool_votes(features: Array, table: NoisyTable) -> Array:
    """Return the votes (samples, queries), 1 or 0, that the pool's samples would cast if they were private records."""
    indices = queries_voted_on(features, features, table.queries, table.neighbours)
    votes = np.zeros((len(features), len(table.queries)))
    np.put_along_axis(votes, indices, 1.0, axis=1)
    return votes


@dataclass(frozen=True, eq=False)
class _Problem:
    """Least-squares problem: find the weights W (features, classes) for which `products` · W ≈ `table`.

    `products` is the matrix n·A, and `table` the released table without its expectation at W = 0 (see the docstring of
    the module). The mean of each row of `table` is subtracted too. Then `products` and `table` are rotated to the
    principal axes of the votes' covariance, so that errors in different rows are independent.
    """

    products: Array  # n·A, rotated (axes, features)
    table: Array  # table minus its expectation at W = 0 and the mean of each row, rotated (axes, classes)
    covariance: Array  # variance of the votes along each axis (axes,)
    spread: Array  # standard deviation of each feature (features,)


@dataclass(frozen=True, eq=False)
class Fits:
    """Fits of the weights of a linear student by one call of `_fit_weights`, one fit for each prior scale τ.

    Weights are stored as coefficients: components along the principal axes of the scaled features.
    """

    evidence: Array  # log-evidence of each τ (scales,)
    strength: Array  # prior variance over error variance of each coefficient, for each τ (scales, coefficients)
    along: Array  # response along each axis (coefficients, classes)
    spread: Array  # singular value of each coefficient (coefficients,)
    axes: Array  # principal axes of the scaled features (features, coefficients)
    prior: Array  # scale of each feature, dᵖ (features,)

    def weights(self, index: int) -> Array:
        """Return the weights (features, classes) of the fit whose log-evidence is `evidence[index]`."""
        shrunk = self.strength[index] / (1 + self.strength[index]) / self.spread
        return self.prior[:, None] * (self.axes @ (shrunk[:, None] * self.along))


def _fit_weights(problem: _Problem, table: NoisyTable, factor: float, power: float) -> Fits:
    """Fit the weights of a linear student to `problem`, once for each prior scale τ that is tried.

    `factor` and `power` are the hyperparameters c and p in the docstring of the module. The error variance of a row of
    `problem.table` is `table.variance` plus a term proportional to `factor` and to the variance of the votes. A
    weight's prior standard deviation is τ · (standard deviation of its feature)^`power`.
    """
    classes = problem.table.shape[1]
    # A centred vote has the squared length 1 − 1/classes in classes − 1 dimensions.
    variance = table.variance + factor * table.records / classes * problem.covariance
    prior = problem.spread**power
    design = problem.products * prior / np.sqrt(variance)[:, None]
    response = problem.table / np.sqrt(variance)[:, None]
    squares, axes = np.linalg.eigh(design.T @ design)
    kept = squares > squares[-1] * 1e-10
    squares, axes = squares[kept], axes[:, kept]
    along = axes.T @ (design.T @ response) / np.sqrt(squares)[:, None]
    rest = np.square(response).sum() - np.square(along).sum() + (classes - 1) * np.log(variance).sum()
    strength = np.exp(_VARIANCES)[:, None] * squares
    lengths = np.square(along).sum(axis=1)
    evidence = -0.5 * ((classes - 1) * np.log1p(strength).sum(axis=1) + (lengths / (1 + strength)).sum(axis=1) + rest)
    return Fits(evidence, strength, along, np.sqrt(squares), axes, prior)
