"""Of each row of a released table: ln Pr[row | class], where what rows look like is learnt from the table itself.

A row is counts + noise. What counts look like is not known beforehand, so it is estimated by empirical Bayes (Robbins
1956, *An empirical Bayes approach to statistics*). A row's votes are a scale, common to all rows, times what is
expected of it, and have one of several shapes: the class of the row has some share of them, and all others are spread
over the other classes, or belong to one rival. Scale and frequencies of shapes are those that make the whole table most
likely, the latter by expectation maximisation. Beforehand every class is equally likely.

The noise is known, so given scale and shape the likelihood is exact. Discrete noise has on whole numbers the
continuous density up to a constant, so both are read alike. The table is public, and so is all that is read from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import logsumexp
from patebench.mechanisms.noise import Noise

Array = NDArray[np.float64]

#: The shares of a row's votes that its class may have: it has the most.
_SHARES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
#: The scales that are tried, in scales of the noise: each a quarter above the one before.
_SCALES = 0.25 * 1.25 ** np.arange(40)
#: Iterations of EM at each scale, and for how many rows the first guess counts: all shapes are alike.
_ITERATIONS, _GUESSED_ROWS = 20, 2.0


@dataclass(frozen=True)
class Shape:
    """Which share of a row's votes its class has, one rival, and each other class."""

    own: float
    rival: float
    other: float

    def log_density(self, table: Array, totals: Array, noise: Noise) -> Array:
        """ln Pr[row | class] (queries, classes) for rows with these `totals` (queries,), all in scales of the noise."""
        own, rival, other = (noise.log_density(table - share * totals[:, None]) for share in vars(self).values())
        found: Array = other.sum(axis=1, keepdims=True) + own - other
        if self.rival != self.other:
            classes = table.shape[1]
            beside = np.where(np.eye(classes, dtype=bool), -np.inf, (rival - other)[:, None, :])
            found = found + logsumexp(beside) - np.log(classes - 1)
        return found


def log_likelihood(table: NDArray[np.number], noise: Noise, expected: Sequence[Array]) -> Array:
    """ln Pr[row | class] (queries, classes), up to a constant for each row; the noise's scale is above 0.

    `expected` holds public guesses how many votes rows have in proportion to each other, each (queries,). The one that
    makes the table most likely is taken.
    """
    scaled, shapes = np.asarray(table, dtype=np.float64) / noise.scale, _shapes(table.shape[1])
    totals = [scale * guess / guess.mean() for guess in expected for scale in _SCALES]
    fits = (_fit(np.stack([shape.log_density(scaled, each, noise) for shape in shapes])) for each in totals)
    found: Array = max(fits, key=lambda fit: fit[0])[1]
    return found


def _shapes(classes: int) -> list[Shape]:
    """All shapes: the last one is that of a row without votes."""
    spread = [Shape(own, (1 - own) / (classes - 1), (1 - own) / (classes - 1)) for own in _SHARES]
    with_rival = [Shape(own, 1 - own, 0.0) for own in _SHARES if own < 1 and classes > 2]
    return [*spread, *with_rival, Shape(0.0, 0.0, 0.0)]


def _fit(given: Array) -> tuple[float, Array]:
    """ln Pr[table] at the most likely frequencies of shapes, and ln Pr[row | class].

    `given` (shapes, queries, classes) is ln Pr[row | shape, class].
    """
    shapes, queries, classes = given.shape
    rows = logsumexp(given) - np.log(classes)
    frequency = np.full(shapes, 1 / shapes)
    for _ in range(_ITERATIONS):
        joint = rows + np.log(frequency)[:, None]
        responsible = np.exp(joint - logsumexp(joint, axis=0)).sum(axis=1)
        frequency = (responsible + _GUESSED_ROWS / shapes) / (queries + _GUESSED_ROWS)
    weighted = given + np.log(frequency)[:, None, None]
    return float(logsumexp(rows + np.log(frequency)[:, None], axis=0).sum()), logsumexp(weighted, axis=0)
