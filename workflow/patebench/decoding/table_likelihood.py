"""Decode a released table of noisy counts into the probability that each class has the most votes on a query.

The table is public, so decoding costs no privacy. A row can be decoded on its own: the probability of a class is
Pr[class = argmax(row + new noise)], for a uniform prior over counts.

If queries represent clusters of a public pool, all rows can be decoded jointly: `label_field.py` gives the prior of the
labels, and this module the likelihood of each row. The number of votes in each row and the shares of the classes
(`Shape`) are estimated by empirical Bayes (Robbins 1956). Derivation: docs/explanation/proofs-systems.md, "Reading a
noisy table".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array, logsumexp
from patebench.core.errors import PatebenchError
from patebench.decoding import label_field
from patebench.features.query_clusters import QueryClusters
from patebench.mechanisms.base import mechanism_of
from patebench.mechanisms.noise import Noise
from patebench.mechanisms.quadrature import log_argmax_probabilities
from patebench.mechanisms.sparse_argmax import SparseArgmax

#: Possible shares of a row's votes for its class.
_SHARES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
#: Candidate numbers of votes per row, in units of the noise scale.
_SCALES = 0.25 * 1.25 ** np.arange(40)
#: Number of EM iterations per guess of the numbers of votes, and weight of the uniform prior over shapes, as a number
#: of rows of the table.
_ITERATIONS, _GUESSED_ROWS = 20, 2.0


@dataclass(frozen=True)
class Shape:
    """Shares of the classes in the votes on a query, before noise is added.

    The class of the query gets the share `own`. One other class, the rival, gets the share `rival`. Each remaining
    class gets the share `other`. All shares are 0 for a query without votes.
    """

    own: float
    rival: float
    other: float

    def log_density(self, table: Array, totals: Array, noise: Noise) -> Array:
        """Return ln Pr[row of the table | class of the query] (queries, classes), if the classes have these shares.

        `table` (queries, classes) are the noisy counts, and `totals` (queries,) the numbers of votes on the queries.
        Both are divided by the noise scale. The rival may be any other class, with equal probabilities.
        """
        own, rival, other = (noise.log_density(table - share * totals[:, None]) for share in vars(self).values())
        density: Array = other.sum(axis=1, keepdims=True) + own - other
        if self.rival != self.other:
            classes = table.shape[1]
            rivals = np.where(np.eye(classes, dtype=bool), -np.inf, (rival - other)[:, None, :])
            density = density + logsumexp(rivals) - np.log(classes - 1)
        return density


def row_log_likelihood(table: NDArray[np.number], noise: Noise, relative_votes: Sequence[Array]) -> Array:
    """Return ln Pr[row of the table | class of the query] (queries, classes), up to a constant per row.

    The number of votes in each row is unknown. Each array (queries,) in `relative_votes` is a guess of these numbers,
    up to a common factor. The result uses the guess and the factor that make the table most likely. The scale of
    `noise` must be above 0.
    """
    scaled, shapes = np.asarray(table, dtype=np.float64) / noise.scale, _shapes(table.shape[1])
    totals = [scale * guess / guess.mean() for guess in relative_votes for scale in _SCALES]
    fits = (_fit_shapes(np.stack([shape.log_density(scaled, votes, noise) for shape in shapes])) for votes in totals)
    return max(fits, key=lambda fit: fit[0])[1]


def _shapes(classes: int) -> list[Shape]:
    """Return the candidate patterns of vote counts for `classes` classes; the last one is for a query without votes."""
    spread = [Shape(own, (1 - own) / (classes - 1), (1 - own) / (classes - 1)) for own in _SHARES]
    with_rival = [Shape(own, 1 - own, 0.0) for own in _SHARES if own < 1 and classes > 2]
    return [*spread, *with_rival, Shape(0.0, 0.0, 0.0)]


def _fit_shapes(log_density: Array) -> tuple[float, Array]:
    """Return ln Pr[table], and ln Pr[row of the table | class of the query] (queries, classes).

    `log_density` (shapes, queries, classes) is ln Pr[row | class, shape] for each candidate `Shape`. EM estimates
    Pr[shape], the share of the queries with this shape. Both results are averages over all shapes with these weights.
    In Pr[table], all classes are equally probable, and rows are independent.
    """
    shapes, queries, classes = log_density.shape
    rows = logsumexp(log_density) - np.log(classes)  # all classes are equally likely
    frequency = np.full(shapes, 1 / shapes)
    for _ in range(_ITERATIONS):
        joint = rows + np.log(frequency)[:, None]
        expected_rows = np.exp(joint - logsumexp(joint, axis=0)).sum(axis=1)
        frequency = (expected_rows + _GUESSED_ROWS / shapes) / (queries + _GUESSED_ROWS)
    weighted = log_density + np.log(frequency)[:, None, None]
    return float(logsumexp(rows + np.log(frequency)[:, None], axis=0).sum()), logsumexp(weighted, axis=0)


#: Probability of having the most votes below which a label counts as hidden by the noise.
_HIDDEN = 0.5
#: Minimum number of labels of a class that are not hidden; only then are the hidden labels of the class left out.
_FEW = 3

#: ln of the least probability of a class, so that no label is certain when the noise is small.
_LEAST = -30.0


def read(
    table: NDArray[np.number], facts: Mapping[str, Any], clusters: QueryClusters | None = None
) -> tuple[NDArray[np.int64], Array]:
    """Estimate, for each query, the class that had the most votes before noise was added.

    Parameters
    ----------
    table : (queries, classes) array of noisy counts
    facts
        Metadata of the released labels, such as the name and the parameters of the mechanism.
    clusters
        Public facts on the clusters that the queries represent. If given, all rows are decoded jointly, even if the
        queries were selected in several rounds. If None, each row is decoded on its own.

    Returns
    -------
    (queries,) int array
        Estimated classes, used as labels.
    (queries, classes) array
        ln Pr[class had the most votes | table]. Values below −30 are replaced by −30.

    Raises
    ------
    PatebenchError
        If the mechanism releases no table.
    """
    noise = noise_of(facts)
    if clusters is None or noise.scale == 0:
        return table.argmax(axis=1), np.maximum(log_argmax_probabilities(table, noise), _LEAST)
    # If teachers vote on every query, rows have equal numbers of votes; if they have one vote each, cluster sizes
    # count.
    relative_votes = [np.ones(len(table)), clusters.sizes if clusters.sizes_at_vote is None else clusters.sizes_at_vote]
    labels, log_posterior = label_field.read(row_log_likelihood(table, noise, relative_votes), clusters)
    return labels, np.maximum(log_posterior, _LEAST)


def noise_of(facts: Mapping[str, Any]) -> Noise:
    """Return the distribution of the noise on each count of a released table; `facts` are the metadata of its labels.

    With secure aggregation, the noise may depend on the number of all teachers, `facts["ensemble"]`, and on the number
    of teachers that sent secret shares, `facts["teachers"]`. Raises PatebenchError if the mechanism releases no table.
    """
    mechanism = mechanism_of(facts)
    if not isinstance(mechanism, SparseArgmax):
        raise PatebenchError(
            f"the mechanism '{facts['mechanism']}' releases no table of noisy counts; use labels of 'sparse-gnmax'"
        )
    sent = facts.get("teachers")
    return mechanism.noise_of(facts.get("ensemble", sent), sent)


def hidden(labels: NDArray[np.integer], log_posterior: Array) -> NDArray[np.bool_]:
    """Return a mask (queries,) that is True for labels that a student should not learn from.

    `labels` (queries,) and `log_posterior` (queries, classes) are the two results of `read`: labels, and ln Pr[class
    had the most votes | table]. A label is sure if its probability is at least 1/2, and doubtful otherwise. The mask is
    True for doubtful labels of classes with at least 3 sure labels. In other classes, doubtful labels help a student
    more than they harm.
    """
    doubtful = np.exp(log_posterior[np.arange(len(labels)), labels]) < _HIDDEN
    sure_labels = np.bincount(labels[~doubtful], minlength=log_posterior.shape[1])
    return doubtful & (sure_labels[labels] >= _FEW)
