"""Cluster the public pool: choose the number of clusters to query, and measure how large and how near they are.

The function `choose` uses only the pool's features, the noise and the number of teachers that the user declares. It
does not count private records, because their number may be private. So the choice is public and costs no privacy.

If each teacher has one vote, more clusters cost no privacy, but each cluster gets fewer votes. If a cluster's votes are
not well above σ, the noise hides the label of the cluster. So `choose` returns the largest number of clusters for which
nearly all of the pool is in clusters with at least 2σ expected votes. Expected votes assume that private records are
distributed like the pool. At most five clusters per class are considered, because more have helped no student
(docs/explanation/one-vote.md).

Labelling clusters by true labels (`majority`, `one_to_one`) shows how well public data alone separate the classes, and
bounds the accuracy of one label per cluster. These labels use no private data, so ε = 0, but they need true labels of
public samples, which are unavailable in practice.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.text import plural
from patebench.features.cells import centres, nearest

Array = NDArray[np.float64]

#: Number of k-means runs; the best one is used, since a single run may miss a rare kind of sample.
_STARTS = 10
#: Minimum number of votes in a row of the table, in units of σ, for which jointly decoded labels are mostly correct.
LEAST_VOTES = 2.0
#: Maximum share of the pool in clusters with fewer votes than `LEAST_VOTES` · σ.
HIDDEN = 0.05
#: Maximum number of clusters per class; more have not helped.
FOR_EACH_CLASS = 5
#: Minimum nearness of two clusters; smaller values occur by chance and count as 0.
_LEAST = 0.05


def clustered(
    features: NDArray[np.floating], clusters: int, weights: NDArray[np.floating] | None = None
) -> tuple[NDArray[np.integer], NDArray[np.floating]]:
    """Cluster the samples by k-means; return their clusters (samples,) and distances to all means (samples, clusters).

    `clusters` is the number of clusters, and `weights` (samples,) are the samples' weights in k-means. Starts have a
    fixed seed, so the result depends only on `features` (samples, features), `clusters` and `weights`.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    model = KMeans(clusters, n_init=_STARTS, random_state=0)
    with warnings.catch_warnings():
        # Equal samples can give fewer clusters than requested; the others are empty and chosen last.
        warnings.simplefilter("ignore", ConvergenceWarning)
        distance = model.fit(features, sample_weight=weights).transform(features)
    return model.labels_, distance


def nearest_samples(distance: NDArray[np.floating]) -> NDArray[np.intp]:
    """Return one sample per cluster, as positions (clusters,): the sample nearest to the cluster's mean.

    Clusters are processed in order. A sample that an earlier cluster got is skipped, so all samples are different.
    `distance` (samples, clusters) contains the distances of samples to means.
    """
    free, chosen = distance.copy(), np.zeros(distance.shape[1], np.intp)
    for column in range(distance.shape[1]):
        chosen[column] = free[:, column].argmin()
        free[chosen[column]] = np.inf
    return chosen


@dataclass(frozen=True)
class Clustering:
    """Expected numbers of votes if the pool is divided into clusters and each cluster is one query.

    Attributes
    ----------
    clusters : number of clusters
    fewest_votes : expected number of votes of the smallest cluster
    median_votes : median over the clusters of the expected number of votes
    hidden : share of the pool in clusters with fewer than `LEAST_VOTES` · σ expected votes, where noise often makes
        the label wrong. σ is the standard deviation of the noise on a count
    """

    clusters: int
    fewest_votes: float
    median_votes: float
    hidden: float


@dataclass(frozen=True)
class Choice:
    """Result of `choose`: the number of clusters to query, and the clusterings that were compared.

    A clustering is acceptable if noise makes few labels wrong: its `hidden` is at most `HIDDEN`.

    Attributes
    ----------
    clusters : largest number of clusters of an acceptable clustering, or the smallest number that was compared if no
        clustering is acceptable
    enough : True if at least one clustering is acceptable
    teachers : number of teachers, each with one vote
    sigma : standard deviation of the noise on a count
    looked_at : compared clusterings, in ascending number of clusters
    """

    clusters: int
    enough: bool
    teachers: int
    sigma: float
    looked_at: Sequence[Clustering]


def choose(features: NDArray[np.floating], *, teachers: int, sigma: float, classes: int) -> Choice:
    """Choose the number of clusters of the pool to query: the largest at which noise makes few labels wrong.

    `features` (samples, features) are those of the pool. One to five clusters per class are compared. `teachers` is the
    declared number of teachers, each with one vote; `sigma` is the standard deviation of the noise on a count. Raises
    PatebenchError if the pool is too small.
    """
    if len(features) < classes:
        raise PatebenchError(
            f"a pool of {plural(len(features), 'sample')} is too small for {classes} clusters; use a larger pool"
        )
    if not sigma >= 0:
        raise PatebenchError(f"sigma = {sigma:g} is not a standard deviation; it must be at least 0")
    numbers = [classes * count for count in range(1, FOR_EACH_CLASS + 1) if classes * count <= len(features)]
    looked_at = [_measure_clustering(features, number, teachers, sigma) for number in numbers]
    sound = [clustering.clusters for clustering in looked_at if clustering.hidden <= HIDDEN]
    return Choice(max(sound, default=looked_at[0].clusters), bool(sound), teachers, sigma, looked_at)


def _measure_clustering(features: NDArray[np.floating], clusters: int, teachers: int, sigma: float) -> Clustering:
    queries = nearest_samples(clustered(features, clusters)[1])
    member = nearest(features, centres(features, queries))
    shares = _measure_shares(member, clusters)
    votes = teachers * shares
    hidden = float(shares[votes < LEAST_VOTES * sigma].sum())
    return Clustering(clusters, float(votes.min()), float(np.median(votes)), hidden)


@dataclass(frozen=True)
class QueryClusters:
    """Sizes of the clusters of the pool around the queries, and the nearness of each pair of clusters.

    Attributes
    ----------
    sizes : (queries,) share of the pool in each cluster, if the pool is divided among the queries of all rounds
    nearness : (queries, queries) nearness of clusters A and B, from 0 to 1. It is the mean of two shares: of the
        samples of A whose second nearest cluster is B, and of the samples of B whose second nearest cluster is A
    sizes_at_vote : (queries,) share of the pool in each cluster at the time of the vote, when queries of later rounds
        did not yet exist. None: equal to `sizes`
    """

    sizes: Array
    nearness: Array
    sizes_at_vote: Array | None = None

    @classmethod
    def of(cls, features: NDArray[np.floating], queries: NDArray[np.integer], rounds: Sequence[int] = ()) -> Self:
        """Return the sizes and nearness of the clusters of `queries`, from the pool's `features` (samples, features).

        `queries` are positions in the pool. All arguments are public. `rounds` are the numbers of queries of each
        round, in order; empty means one round.
        """
        means, count = centres(features, queries), len(queries)
        ends = list(pairwise([0, *accumulate(rounds or (count,))]))
        member, second = nearest(features, means), np.zeros((count, count))
        for cluster in range(count if count > 1 else 0):
            others = np.delete(np.arange(count), cluster)
            second_nearest = others[nearest(features[member == cluster], means[others])]
            second[cluster] = np.bincount(second_nearest, minlength=count) / max(1, len(second_nearest))
        nearness = (second + second.T) / 2
        sizes = _measure_shares(member, count)
        sizes_at_vote = [
            _measure_shares(nearest(features, centres(features, queries[:end])), end)[start:]
            for start, end in ends[:-1]
        ]
        sizes_at_vote.append(sizes[ends[-1][0] :])
        return cls(sizes, np.where(nearness < _LEAST, 0.0, nearness), np.concatenate(sizes_at_vote))


def _measure_shares(member: NDArray[np.integer], count: int) -> Array:
    return np.bincount(member, minlength=count) / len(member)


Labels = NDArray[np.integer]


def majority(member: Labels, truth: Labels, clusters: int, classes: int) -> NDArray[np.int64]:
    """Return the most frequent true label of each cluster (clusters,), the lowest one in a tie.

    `member` (samples,) is the cluster of each sample and `truth` (samples,) its true label.
    """
    return count_labels(member, truth, (clusters, classes)).argmax(axis=1)


def one_to_one(member: Labels, truth: Labels, classes: int) -> NDArray[np.int64]:
    """Assign one class to each of `classes` clusters, one to one; return the classes of the clusters (classes,).

    `member` (samples,) is the cluster of each sample, and `truth` (samples,) its true label. The assignment with the
    most correct samples is computed by the Hungarian method (Kuhn 1955), as in Xie et al. 2016 (*Unsupervised deep
    embedding for clustering analysis*).
    """
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment(count_labels(member, truth, (classes, classes)), maximize=True)[1].astype(np.int64)


def count_labels(member: Labels, labels: Labels, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Return the number of samples of each cluster and label, an array of this `shape` (clusters, classes).

    `member` (samples,) is the cluster of each sample, and `labels` (samples,) its label.
    """
    counts = np.zeros(shape, np.int64)
    np.add.at(counts, (member, labels), 1)
    return counts
