"""Read a released table of noisy counts: how likely each class is to have most votes of a query.

The table is public, so what is read from it costs no privacy. Each row by itself has the class distribution of
argmax(table + noise), which mechanisms compute. Where queries stand for clusters of a public pool, all rows are read
together: `label_field.py` joins labels, and scale and shapes of rows are estimated by empirical Bayes (Robbins 1956).
Derivation: docs/explanation/proofs-systems.md, "Reading a noisy table".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import logsumexp
from patebench.core.errors import PatebenchError
from patebench.decoding import label_field
from patebench.features.query_clusters import QueryClusters
from patebench.mechanisms.base import make_mechanism
from patebench.mechanisms.noise import Noise
from patebench.mechanisms.quadrature import log_argmax_probabilities
from patebench.mechanisms.sparse_argmax import SparseArgmax

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
        """Return ln Pr[row | class] (queries, classes) for rows with `totals` (queries,), in scales of the noise."""
        own, rival, other = (noise.log_density(table - share * totals[:, None]) for share in vars(self).values())
        found: Array = other.sum(axis=1, keepdims=True) + own - other
        if self.rival != self.other:
            classes = table.shape[1]
            beside = np.where(np.eye(classes, dtype=bool), -np.inf, (rival - other)[:, None, :])
            found = found + logsumexp(beside) - np.log(classes - 1)
        return found


def row_log_likelihood(table: NDArray[np.number], noise: Noise, expected: Sequence[Array]) -> Array:
    """Return ln Pr[row | class] (queries, classes), up to a constant for each row; the noise's scale is above 0.

    `expected` holds public guesses how many votes rows have in proportion to each other, each (queries,). The one that
    makes the table most likely is taken.
    """
    scaled, shapes = np.asarray(table, dtype=np.float64) / noise.scale, _shapes(table.shape[1])
    totals = [scale * guess / guess.mean() for guess in expected for scale in _SCALES]
    fits = (_fit(np.stack([shape.log_density(scaled, each, noise) for shape in shapes])) for each in totals)
    return max(fits, key=lambda fit: fit[0])[1]


def _shapes(classes: int) -> list[Shape]:
    """Return all shapes: the last one is that of a row without votes."""
    spread = [Shape(own, (1 - own) / (classes - 1), (1 - own) / (classes - 1)) for own in _SHARES]
    with_rival = [Shape(own, 1 - own, 0.0) for own in _SHARES if own < 1 and classes > 2]
    return [*spread, *with_rival, Shape(0.0, 0.0, 0.0)]


def _fit(given: Array) -> tuple[float, Array]:
    """Return ln Pr[table] at the most likely frequencies of shapes, and ln Pr[row | class].

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


#: A label that has most votes with less probability is more likely wrong than right: the noise hides it, …
_HIDDEN = 0.5
#: … if its class has at least this many labels that are not hidden.
_FEW = 3

#: ln of the least probability that a class is given, where noise is small: no label counts as certain.
_LEAST = -30.0


def read(
    table: NDArray[np.number], facts: Mapping[str, Any], clusters: QueryClusters | None = None
) -> tuple[NDArray[np.int64], Array]:
    """Return the likeliest labels (queries,), and ln Pr[class has most votes | table] (queries, classes), at least −30.

    `table` (queries, classes) is released by the mechanism that `facts`, the metadata of its labels, name. With
    `clusters`, what is public of those that the queries stand for, all rows are read together, those of several rounds
    too: the noise of each is the same. Raises PatebenchError if
    that mechanism releases no table.
    """
    noise = noise_of(facts)
    if clusters is None or noise.scale == 0:
        return table.argmax(axis=1), np.maximum(log_argmax_probabilities(table, noise), _LEAST)
    # Teachers that vote on every query give all rows alike many votes; those that vote on one, as many as lie near it.
    expected = [np.ones(len(table)), clusters.sizes if clusters.put is None else clusters.put]
    labels, known = label_field.read(row_log_likelihood(table, noise, expected), clusters)
    return labels, np.maximum(known, _LEAST)


def noise_of(facts: Mapping[str, Any]) -> Noise:
    """Return the noise of each count of a table whose labels have these `facts`; PatebenchError if none is released.

    Of a secure release the `ensemble` is whoever was to send, and `teachers` are those who did: what is in the table.
    """
    parameters = {name: float(value) for name, value in facts["parameters"].items()}
    mechanism = make_mechanism(facts["mechanism"], parameters)
    if not isinstance(mechanism, SparseArgmax):
        raise PatebenchError(f"{facts['mechanism']} releases no table of noisy counts, so none may be read")
    sent = facts.get("teachers")
    return mechanism.noise_of(facts.get("ensemble", sent), sent)


def hidden(labels: NDArray[np.integer], log_likelihood: Array) -> NDArray[np.bool_]:
    """Return which labels (queries,) the noise hides, by ln of the probability (queries, classes) of each class.

    A class that would have few labels left keeps all: there a doubtful label teaches more than it harms.
    """
    doubtful = np.exp(log_likelihood[np.arange(len(labels)), labels]) < _HIDDEN
    left = np.bincount(labels[~doubtful], minlength=log_likelihood.shape[1])
    result: NDArray[np.bool_] = doubtful & (left[labels] >= _FEW)
    return result
