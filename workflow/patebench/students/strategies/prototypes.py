"""Samples that stand for many others: the one nearest to the middle of each cluster of the pool.

A few labels teach more where each speaks for a whole cluster, and teachers agree on what is typical, so noise changes
fewer of those labels. The pool is public and clusters need no label: nothing is spent on choosing.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from patebench.students.strategies.situation import Situation

#: Clusters are made along so many principal components; the rest of an image is mostly noise.
_COMPONENTS = 50


def choose(situation: Situation, queries: int, seed: int) -> NDArray[np.intp]:
    """The open samples nearest to the means of as many clusters of open samples."""
    unasked = situation.unasked
    samples = situation.lesson.pool[unasked].reshape(len(unasked), -1).astype(np.float64)
    state = np.random.RandomState(seed % 2**32)
    components = min(_COMPONENTS, *samples.shape)
    found = PCA(components, svd_solver="covariance_eigh").fit_transform(samples)
    distance = KMeans(queries, n_init=1, random_state=state).fit(found).transform(found)
    return unasked[_nearest(distance)]


def _nearest(distance: NDArray[np.float64]) -> NDArray[np.intp]:
    """For each column, the row where it is least, no row twice."""
    chosen = np.zeros(distance.shape[1], np.intp)
    free = distance.copy()
    for column in range(distance.shape[1]):
        chosen[column] = free[:, column].argmin()
        free[chosen[column]] = np.inf
    return chosen
