"""Names of clusters by true labels: what public data alone already tells apart, but for what the classes are called.

No label of a private record has a part in it, so it costs ε = 0; but no one can do it without true labels of public
samples. On samples like those it is what one label for each cluster can reach at most; private records of another kind
may name the clusters otherwise, and better for samples of theirs.
"""

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.integer]


def majority(member: Labels, truth: Labels, clusters: int, classes: int) -> NDArray[np.int64]:
    """The most frequent true label of each cluster (clusters,), the lowest of tied ones: the best naming there is.

    `member` (samples,) are clusters, `truth` (samples,) labels. No other naming makes more of these samples right.
    """
    result: NDArray[np.int64] = _counts(member, truth, clusters, classes).argmax(axis=1)
    return result


def one_to_one(member: Labels, truth: Labels, classes: int) -> NDArray[np.int64]:
    """A class for each of as many clusters, no class twice, such that most of the samples are right.

    The assignment of Kuhn 1955, as Xie et al. 2016 (*Unsupervised deep embedding for clustering analysis*) measure
    clusterings.
    """
    from scipy.optimize import linear_sum_assignment

    result: NDArray[np.int64] = linear_sum_assignment(_counts(member, truth, classes, classes), maximize=True)[1]
    return result.astype(np.int64)


def _counts(member: Labels, truth: Labels, clusters: int, classes: int) -> NDArray[np.int64]:
    """How many samples of each cluster have each label."""
    found = np.zeros((clusters, classes), np.int64)
    np.add.at(found, (member, truth), 1)
    return found
