"""Of a released table of noisy counts: how likely each class is to have most votes of a query.

The table is public, so what is read from it costs nothing. Where queries stand for clusters of a public pool, all rows
are read together: what rows look like is learnt from the table (`row_likelihood`), and clusters tell of each other's
labels (`label_field`). Where nothing is known of the queries, each row is read by itself. If all counts are taken to be
equally likely beforehand, then given the table they are the table less noise, which is symmetric, and the class with
most votes has the distribution of argmax(table + noise), which mechanisms know how to compute.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.decoding import label_field
from patebench.decoding.row_likelihood import log_likelihood
from patebench.features.clusters import QueryClusters
from patebench.mechanisms.base import make_mechanism
from patebench.mechanisms.noise import Noise
from patebench.mechanisms.quadrature import log_argmax_probabilities
from patebench.mechanisms.sparse_argmax import SparseArgmax

Array = NDArray[np.float64]

#: A label that has most votes with less probability is more likely wrong than right: the noise hides it, …
_HIDDEN = 0.5
#: … if its class has so many labels that are not hidden.
_FEW = 3

#: ln of the least probability that a class is given, where noise is small: no label counts as certain.
_LEAST = -30.0


def read(
    table: NDArray[np.number], facts: Mapping[str, Any], clusters: QueryClusters | None = None
) -> tuple[NDArray[np.int64], Array]:
    """The likeliest labels (queries,), and ln Pr[class has most votes | table] (queries, classes), at least −30.

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
    labels, known = label_field.read(log_likelihood(table, noise, expected), clusters)
    return labels, np.maximum(known, _LEAST)


def noise_of(facts: Mapping[str, Any]) -> Noise:
    """The noise of each count of a table whose labels have these `facts`; PatebenchError if none is released.

    Of a secure release the `ensemble` is whoever was to send, and `teachers` are those who did: what is in the table.
    """
    parameters = {name: float(value) for name, value in facts["parameters"].items()}
    mechanism = make_mechanism(facts["mechanism"], parameters)
    if not isinstance(mechanism, SparseArgmax):
        raise PatebenchError(f"{facts['mechanism']} releases no table of noisy counts, so none may be read")
    sent = facts.get("teachers")
    return mechanism.noise_of(facts.get("ensemble", sent), sent)


def hidden(labels: NDArray[np.integer], log_likelihood: Array) -> NDArray[np.bool_]:
    """Which labels (queries,) the noise hides, by ln of the probability (queries, classes) of each class.

    A class that would have few labels left keeps all: there a doubtful label teaches more than it harms.
    """
    doubtful = np.exp(log_likelihood[np.arange(len(labels)), labels]) < _HIDDEN
    left = np.bincount(labels[~doubtful], minlength=log_likelihood.shape[1])
    result: NDArray[np.bool_] = doubtful & (left[labels] >= _FEW)
    return result
