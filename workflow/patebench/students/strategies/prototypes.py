"""Samples that stand for many others: the middle of the largest clusters of the pool that nothing was asked of yet.

After Hacohen et al. 2022, *Active learning on a budget: opposite strategies suit high and low budgets*: learnt
features, as many clusters as labels, one query for each; here it is the sample nearest to the cluster's mean. With few
labels, what is typical teaches more than what is doubtful, and teachers agree on it, so noise changes fewer labels. The
pool is public and clusters need no label: nothing is spent on choosing.

The first prototypes of a pool are the same for all releases, so what mechanisms and students make of them can be
compared query by query.
"""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from patebench.students.strategies.situation import Situation

#: The best of so many clusterings: of fifty clusters, a single one may leave a rare kind of sample without its own.
_STARTS = 10


def choose(situation: Situation, queries: int, seed: int) -> NDArray[np.intp]:
    """The open samples nearest to the means of the largest clusters without an asked sample."""
    asked, found = situation.asked, situation.features
    assert found is not None
    clusters = KMeans(len(asked) + queries, n_init=_STARTS, random_state=0)
    with warnings.catch_warnings():
        # Of equal samples there are fewer clusters than asked for; the rest are empty, and chosen last.
        warnings.simplefilter("ignore", ConvergenceWarning)
        distance = clusters.fit(found).transform(found)
    chosen = np.sort(untouched(clusters.labels_, asked, clusters.n_clusters)[:queries])
    distance[asked] = np.inf
    return nearest(distance[:, chosen])


def untouched(labels: NDArray[np.integer], asked: NDArray[np.integer], clusters: int) -> NDArray[np.intp]:
    """All clusters: those of which nothing was `asked` before the others, large ones before small ones."""
    touched, sizes = np.isin(np.arange(clusters), labels[asked]), np.bincount(labels, minlength=clusters)
    return np.lexsort((-sizes, touched))


def nearest(distance: NDArray[np.floating]) -> NDArray[np.intp]:
    """For each column of `distance` (samples × clusters), the row where it is least; no row twice."""
    free, chosen = distance.copy(), np.zeros(distance.shape[1], np.intp)
    for column in range(distance.shape[1]):
        chosen[column] = free[:, column].argmin()
        free[chosen[column]] = np.inf
    return chosen
