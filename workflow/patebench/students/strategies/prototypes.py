"""Samples that stand for many others: in each cluster of the pool, the one nearest to its mean.

Learnt features, clusters of them and one query for each, after Hacohen et al. 2022 (*Active learning on a budget*):
with few labels, what is typical teaches more than what is doubtful. Teachers agree on it as well, so noise changes
fewer labels. The pool is public and clusters need no label: nothing is spent on choosing.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from patebench.students.contrast import features
from patebench.students.strategies.situation import Situation


def choose(situation: Situation, queries: int, seed: int) -> NDArray[np.intp]:
    """The open samples nearest to the means of as many clusters of open samples."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        found = features(situation.lesson.pool)[situation.unasked]
    clusters = KMeans(queries, n_init=1, random_state=np.random.RandomState(seed % 2**32)).fit(found)
    return situation.unasked[nearest(clusters.transform(found))]


def nearest(distance: NDArray[np.floating]) -> NDArray[np.intp]:
    """For each column of `distance` (samples × clusters), the row where it is least; no row twice."""
    free, chosen = distance.copy(), np.zeros(distance.shape[1], np.intp)
    for column in range(distance.shape[1]):
        chosen[column] = free[:, column].argmin()
        free[chosen[column]] = np.inf
    return chosen
