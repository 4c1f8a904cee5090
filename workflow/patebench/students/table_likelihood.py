"""Of a released table of noisy counts: how likely each class is to have most votes of a query.

The noise is known and symmetric. If all counts are taken to be equally likely beforehand, then given the table they are
the table less noise, and the class with most votes has the distribution of argmax(table + noise), which mechanisms know
how to compute. The table is public, so what is read from it costs nothing.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import make_mechanism
from patebench.mechanisms.quadrature import log_argmax_probabilities
from patebench.mechanisms.sparse_argmax import SparseArgmax

Array = NDArray[np.float64]

#: A label that has most votes with less probability is more likely wrong than right: the noise hides it.
_HIDDEN = 0.5

#: ln of the least probability that a class is given, where noise is small: no label counts as certain.
_LEAST = -30.0


def log_likelihood(table: NDArray[np.number], facts: Mapping[str, Any]) -> Array:
    """ln Pr[class has most votes | table] (queries, classes), at least −30.

    `table` (queries, classes) is released by the mechanism that `facts`, the metadata of its labels, name. Raises
    PatebenchError if that mechanism releases no table.
    """
    parameters = {name: float(value) for name, value in facts["parameters"].items()}
    mechanism = make_mechanism(facts["mechanism"], parameters)
    if not isinstance(mechanism, SparseArgmax):
        raise PatebenchError(f"{facts['mechanism']} releases no table of noisy counts, so none may be read")
    return np.maximum(log_argmax_probabilities(table, mechanism.noise), _LEAST)


def hidden(labels: NDArray[np.integer], log_likelihood: Array) -> NDArray[np.bool_]:
    """Which labels (queries,) the noise hides, by ln of the probability (queries, classes) of each class."""
    probability = np.exp(log_likelihood[np.arange(len(labels)), labels])
    result: NDArray[np.bool_] = probability < _HIDDEN
    return result
