"""Prototypes of what the student is unsure of: each stands for a group of doubtful samples that are alike.

After Zhdanov 2019, *Diverse mini-batch active learning*: of the samples that the student is least sure of, ten times as
many as are asked for, clusters in which each counts by its doubt; the query is the sample nearest to a cluster's mean.

The least confident samples by themselves are often alike, or like no other. Where those vote on a query that lie near
it, such queries get few votes, and noise hides their labels.
"""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from patebench.students.strategies.acquisition_state import AcquisitionState
from patebench.students.strategies.prototypes import nearest

#: From so many of the least sure samples for each query the clusters are made: Zhdanov's β.
_CANDIDATES = 10
#: Of so many clusterings the best is taken.
_STARTS = 10


def acquire(state: AcquisitionState, queries: int, seed: int) -> NDArray[np.intp]:
    """The unqueried samples nearest to the means of clusters of the doubtful ones; `seed` is not used."""
    features, predictions = state.features, state.predictions
    assert features is not None
    assert predictions is not None
    confidence = predictions[state.unqueried].max(axis=1)
    doubtful = state.unqueried[np.argsort(confidence, kind="stable")[: _CANDIDATES * queries]]
    # A sample that the student is sure of has hardly any weight, but some, or a sure student would leave none.
    doubt = np.maximum(1 - predictions[doubtful].max(axis=1).astype(np.float64), 1e-6)
    clusters = KMeans(queries, n_init=_STARTS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal samples make fewer clusters than were asked for
        distance = clusters.fit(features[doubtful], sample_weight=doubt).transform(features[doubtful])
    return doubtful[nearest(distance)]
