"""Least squares on features (Mehta et al., TMLR 2023): linear regression from noisy class sums and a covariance.

Each record is a vector v whose last coordinate is a constant c, and has a class y. The class sums Σ v ⊗ e_y, with e_y
the one-hot vector of y, are released with noise. A linear regression computes the classifier from these sums and the
matrix n·C, where n is the number of records and C the mean of v·vᵀ. The number n is estimated from the last coordinates
of the noisy class sums. There are two forms:

- `LeastSquares` computes C from the public pool.
- `PrivateLeastSquares` computes C from Σ v·vᵀ over the records, released with noise, as in the paper (DP-LS).

The regression is Bayesian, along each eigenvector of C. For the eigenvalue a, a noisy class sum is modelled as n·a·w +
N(0, σ² + r·n·a), with the prior N(0, τ²·aᵖ) of the weight w. Here σ² is the variance of the noise, and r·n·a the
sampling variance of the records. The numbers r, p and τ are those with the largest marginal likelihood of the noisy
class sums (MacKay 1992), so the choice needs no further access to the records.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from patebench.baselines.on_features.feature_method import Array, Fitted, GaussianSums, PrivateRecords
from patebench.baselines.on_features.feature_sums import (
    UNIT,
    Scaling,
    Units,
    class_sums,
    from_coordinates,
    outer_sums,
    to_coordinates,
)

#: The constant c, the last coordinate of each vector. Two vectors of at most unit length with this coordinate differ by
#: at most 2·√(1 − c²).
CONSTANT = 0.25

#: Values tried for r times the number of classes, for p, and for ln τ².
_ERRORS, _POWERS, _VARIANCES = (0.25, 1.0, 4.0, 16.0), (-1.0, -0.5, 0.0, 0.5, 1.0), np.arange(-12.0, 16.0, 0.5)


@dataclass(frozen=True, kw_only=True)
class LeastSquares(GaussianSums):
    """Method that fits a linear classifier to noisy class sums of the private records, with the pool's covariance."""

    squared_changes = 4 * (1 - CONSTANT**2), 1.0

    #: Number of principal axes of the pool that are used; None for all.
    dimensions: int | None = None

    def fit(self, private: PrivateRecords, pool: Array, classes: int, rng: np.random.Generator) -> Fitted:
        scaling = Scaling.of(pool, self.dimensions, CONSTANT)
        units = scaling.units(private.features)
        noisy_sums = self.noisy(class_sums(units, private.labels, classes), rng)
        covariance = self._covariance(units, scaling.units(pool), noisy_sums[-1].sum() / CONSTANT, rng)
        return _fit_linear(noisy_sums, self.noise, covariance, scaling)

    def _covariance(self, units: Units, pool: Units, records: float, rng: np.random.Generator) -> Array:
        """Return an estimate (features, features) of the mean outer product v·vᵀ of the private vectors v.

        This class returns the mean of v·vᵀ over the public vectors `pool`. `PrivateLeastSquares` returns the sum of
        v·vᵀ over the private vectors `units` plus noise drawn by `rng`, divided by `records`, the noisy number of
        records.
        """
        return outer_sums(pool) / len(pool)


@dataclass(frozen=True, kw_only=True)
class PrivateLeastSquares(LeastSquares):
    """Method DP-LS: least squares from two noisy releases, the class sums of the vectors v and the sum of v·vᵀ.

    If v is replaced by w, with ‖v‖, ‖w‖ ≤ 1 and s = ⟨v, w⟩, the squared L2 changes of the two releases add up to at
    most (2 − 2s) + (2 − 2s²) = 4.5 − 2(s + ½)² ≤ 4.5 if both records have the same class, and at most 2 + 2 = 4
    otherwise.
    """

    squared_changes = 4.5, 2.0

    @property
    def releases(self) -> int:
        return 2

    def _covariance(self, units: Units, pool: Units, records: float, rng: np.random.Generator) -> Array:
        size = units.shape[1]
        noisy = from_coordinates(self.noisy(to_coordinates(outer_sums(units)), rng), size)
        variance, axes = np.linalg.eigh(noisy)
        # Eigenvalues of the noise alone are at most noise·√(2·size) (Wigner's semicircle); smaller ones may be noise.
        kept = np.maximum(variance, self.noise * np.sqrt(2 * size))
        return axes * kept @ axes.T / max(records, 1.0)


def _fit_linear(noisy_sums: Array, noise: float, covariance: Array, scaling: Scaling) -> Fitted:
    """Fit a linear classifier to `noisy_sums`, sums of the vectors of each class with noise N(0, `noise`²).

    `noisy_sums` is (features, classes). `covariance` (features, features) is the mean outer product of the vectors.
    `scaling` maps the features of a sample to its vector.
    """
    counts = np.maximum(noisy_sums[-1] / CONSTANT, 0)
    records = max(float(counts.sum()), 1.0)
    shares = counts / records if counts.any() else np.full(noisy_sums.shape[1], 1 / noisy_sums.shape[1])
    centred_sums = noisy_sums - records * (covariance[:, -1:] / CONSTANT) * shares
    variance, axes = np.linalg.eigh(covariance)
    kept = variance > 1e-9 * variance[-1]
    weights = axes[:, kept] @ _posterior_weights(axes[:, kept].T @ centred_sums, variance[kept], records, noise)

    def scores(features: Array) -> Array:
        return scaling.units(features) / UNIT @ weights + shares

    return Fitted(scores, "linear", noisy_sums.size)


def _posterior_weights(sums: Array, variance: Array, records: float, noise: float) -> Array:
    """Return the regression weights (axes, classes): posterior means in a Bayesian linear regression.

    The prior variance and the error variance are chosen from a grid, to maximise the marginal likelihood of `sums`.

    Parameters
    ----------
    sums : (axes, classes) noisy class sums along the principal axes
    variance : (axes,) mean squares of the vectors along the principal axes
    records : number of records
    noise : standard deviation of the noise on `sums`
    """
    best: tuple[float, Any] = (-np.inf, None)
    signal, classes = records * variance, sums.shape[1]
    squares = np.square(sums).sum(axis=1)
    for error, power in product(_ERRORS, _POWERS):
        error_variance = noise**2 + error / classes * signal
        prior = np.exp(_VARIANCES)[:, None] * variance**power
        total = prior * signal**2 + error_variance
        evidence = -0.5 * (classes * np.log(total) + squares / total).sum(axis=1)
        best_index = int(evidence.argmax())
        if evidence[best_index] > best[0]:
            best = float(evidence[best_index]), (prior[best_index] * signal / total[best_index])[:, None] * sums
    return best[1]
