"""Samples that stand for many others: the centres of the largest clusters of the pool without a query yet.

After Hacohen et al. 2022, *Active learning on a budget: opposite strategies suit high and low budgets*: learnt
features, as many clusters as labels, one query for each; here it is the sample nearest to the cluster's mean. With few
labels, typical samples teach more than doubtful ones, and teachers agree on them, so noise changes fewer labels. The
pool is public and clusters need no label: choosing costs no privacy.

The first prototypes of a pool are the same for all releases, so what mechanisms and students make of them can be
compared query by query.
"""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from patebench.students.strategies.acquisition_state import AcquisitionState

#: Of so many clusterings the best is taken: a single one of fifty clusters may leave out a rare kind of sample.
_STARTS = 10


def acquire(state: AcquisitionState, queries: int, seed: int) -> NDArray[np.intp]:
    """The unqueried samples nearest to the means of the largest clusters without a queried sample.

    `seed` is not used: clusterings start from fixed draws.
    """
    queried, features = state.queried, state.features
    assert features is not None
    cluster, distance = clustered(features, len(queried) + queries)
    clusters = distance.shape[1]
    chosen = np.sort(ranked_clusters(cluster, queried, clusters)[:queries])
    distance[queried] = np.inf
    return nearest(distance[:, chosen])


def clustered(features: NDArray[np.floating], clusters: int) -> tuple[NDArray[np.integer], NDArray[np.floating]]:
    """The cluster of each sample (samples,), and its distance to every cluster's mean (samples, clusters).

    Starts are drawn alike each time, so that it depends on the `features` (samples, features) alone.
    """
    found = KMeans(clusters, n_init=_STARTS, random_state=0)
    with warnings.catch_warnings():
        # Equal samples make fewer clusters than were asked for; the rest are empty and chosen last.
        warnings.simplefilter("ignore", ConvergenceWarning)
        distance = found.fit(features).transform(features)
    return found.labels_, distance


def ranked_clusters(labels: NDArray[np.integer], queried: NDArray[np.integer], clusters: int) -> NDArray[np.intp]:
    """All `clusters` in order: those without a `queried` sample first, large ones before small ones.

    `labels` (samples,) are the clusters of the samples.
    """
    touched, sizes = np.isin(np.arange(clusters), labels[queried]), np.bincount(labels, minlength=clusters)
    return np.lexsort((-sizes, touched))


def nearest(distance: NDArray[np.floating]) -> NDArray[np.intp]:
    """For each column of `distance` (samples, clusters), the row with the least entry; no row is taken twice."""
    free, chosen = distance.copy(), np.zeros(distance.shape[1], np.intp)
    for column in range(distance.shape[1]):
        chosen[column] = free[:, column].argmin()
        free[chosen[column]] = np.inf
    return chosen
