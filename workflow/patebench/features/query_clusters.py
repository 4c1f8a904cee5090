"""Clusters of the public pool: how many to query, how large they are, and which are near each other.

**How many** follows from the pool's features, the number of teachers and the noise, all public. Where each teacher has
one vote, more clusters cost no privacy, but each gets fewer votes, and noise hides the label of a cluster whose votes
are not well above σ. So `choose` takes as many clusters as leave nearly all of the pool in clusters of at least 2σ
votes, and at most five per class: more have helped no student (docs/explanation/one-vote.md). It assumes that
private records lie
as the pool does. It reads no vote, and the declared number of teachers rather than that of the private records, which
is private by `hash`: so the choice costs no privacy.

Names of clusters by true labels (`majority`, `one_to_one`) show what public data alone already tells apart, except for
what the classes are called: the best that one label per cluster can reach on samples like these. No private label plays
a part, so ε = 0, but it takes true labels of public samples, which nobody has.
"""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.text import plural
from patebench.features.cells import centres, nearest

Array = NDArray[np.float64]

#: Number of clusterings of which the best is taken: a single one of fifty clusters may leave out a rare kind of sample.
_STARTS = 10
#: Votes of a row, in σ, from which rows that are read together are mostly right.
LEAST_VOTES = 2.0
#: Maximum share of the pool in clusters with fewer votes.
HIDDEN = 0.05
#: Maximum number of clusters per class: more have not helped.
FOR_EACH_CLASS = 5
#: Clusters that share less than this of their samples' second choices are not near: chance brings as much.
_LEAST = 0.05


def clustered(
    features: NDArray[np.floating], clusters: int, weights: NDArray[np.floating] | None = None
) -> tuple[NDArray[np.integer], NDArray[np.floating]]:
    """Return the k-means cluster of each sample (samples,) and its distance to every mean (samples, clusters).

    `weights` (samples,) say how much each sample counts. Starts are always drawn alike, so clusters depend on the
    `features` (samples, features) and weights alone.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    model = KMeans(clusters, n_init=_STARTS, random_state=0)
    with warnings.catch_warnings():
        # Equal samples make fewer clusters than were asked for; the rest are empty and chosen last.
        warnings.simplefilter("ignore", ConvergenceWarning)
        distance = model.fit(features, sample_weight=weights).transform(features)
    return model.labels_, distance


def nearest_samples(distance: NDArray[np.floating]) -> NDArray[np.intp]:
    """Return the row with the least entry for each column of `distance` (samples, clusters), no row twice."""
    free, chosen = distance.copy(), np.zeros(distance.shape[1], np.intp)
    for column in range(distance.shape[1]):
        chosen[column] = free[:, column].argmin()
        free[chosen[column]] = np.inf
    return chosen


@dataclass(frozen=True)
class Clustering:
    """So many clusters: the votes that the smallest and the middle one can expect, and the share of the pool in those
    whose label noise will hide.
    """

    clusters: int
    fewest_votes: float
    median_votes: float
    hidden: float


@dataclass(frozen=True)
class Choice:
    """What was looked at, fewest clusters first, and what follows."""

    teachers: int
    sigma: float
    looked_at: Sequence[Clustering]

    @property
    def clusters(self) -> int:
        """Return how many to ask about: the most that have the votes that they need, or the fewest if none have."""
        return max(self._sound, default=self.looked_at[0].clusters)

    @property
    def enough(self) -> bool:
        """Return whether the chosen clusters have the votes that they need; else noise is too large for any number."""
        return bool(self._sound)

    @property
    def _sound(self) -> list[int]:
        return [each.clusters for each in self.looked_at if each.hidden <= HIDDEN]

    def to_json(self) -> dict[str, Any]:
        return {"clusters": self.clusters, "enough": self.enough, **asdict(self)}


def choose(features: NDArray[np.floating], *, teachers: int, sigma: float, classes: int) -> Choice:
    """Return one to five clusters for each of the `classes` of a pool with such `features` (samples, features).

    `teachers` is their declared number, each with one vote, and σ is `sigma`. PatebenchError for a too small pool.
    """
    if len(features) < classes:
        raise PatebenchError(f"a pool of {plural(len(features), 'sample')} has no {classes} clusters; use a larger one")
    if not sigma >= 0:
        raise PatebenchError(f"sigma = {sigma:g} is no standard deviation; give one of at least 0")
    numbers = [classes * each for each in range(1, FOR_EACH_CLASS + 1) if classes * each <= len(features)]
    return Choice(teachers, sigma, [_clustering(features, number, teachers, sigma) for number in numbers])


def _clustering(features: NDArray[np.floating], clusters: int, teachers: int, sigma: float) -> Clustering:
    queries = nearest_samples(clustered(features, clusters)[1])
    member = nearest(features, centres(features, queries))
    shares = np.bincount(member, minlength=clusters) / len(features)
    votes = teachers * shares
    hidden = float(shares[votes < LEAST_VOTES * sigma].sum())
    return Clustering(clusters, float(votes.min()), float(np.median(votes)), hidden)


@dataclass(frozen=True)
class QueryClusters:
    """The clusters' shares of the pool (queries,), and how near any two are (queries, queries).

    `put` (queries,) are the shares that they had when they were put, None for these: where queries are selected in
    rounds, a later one takes of the cluster of an earlier one, which had its votes before. `nearness` is symmetric and
    0 on its diagonal: of the samples of one cluster, the share that would be in the other one if there were no cluster
    of their own, and vice versa, on average.
    """

    sizes: Array
    nearness: Array
    put: Array | None = None

    @classmethod
    def of(cls, features: NDArray[np.floating], queries: NDArray[np.integer], rounds: Sequence[int] = ()) -> Self:
        """Measure clusters by the pool's `features` (samples, features), of which `queries` are positions. All of it is
        public.

        `rounds` are the numbers of queries of each round, in order; without them all were put at once.
        """
        means, count = centres(features, queries), len(queries)
        ends = list(pairwise([0, *accumulate(rounds or (count,))]))
        member, second = nearest(features, means), np.zeros((count, count))
        for cluster in range(count if count > 1 else 0):
            others = np.delete(np.arange(count), cluster)
            beside = others[nearest(features[member == cluster], means[others])]
            second[cluster] = np.bincount(beside, minlength=count) / max(1, len(beside))
        nearness = (second + second.T) / 2
        sizes = _shares(member, count)
        put = [_shares(nearest(features, centres(features, queries[:end])), end)[start:] for start, end in ends[:-1]]
        put.append(sizes[ends[-1][0] :])
        return cls(sizes, np.where(nearness < _LEAST, 0.0, nearness), np.concatenate(put))


def _shares(member: NDArray[np.integer], count: int) -> Array:
    """Return the share of samples of each of `count` clusters."""
    return np.bincount(member, minlength=count) / len(member)


Labels = NDArray[np.integer]


def majority(member: Labels, truth: Labels, clusters: int, classes: int) -> NDArray[np.int64]:
    """Return the most frequent true label of each cluster (clusters,), the lowest of tied ones: the best naming.

    `member` (samples,) are clusters, `truth` (samples,) labels. No other naming makes more of these samples right.
    """
    result: NDArray[np.int64] = _counts(member, truth, clusters, classes).argmax(axis=1)
    return result


def one_to_one(member: Labels, truth: Labels, classes: int) -> NDArray[np.int64]:
    """Return a class for each of as many clusters, no class twice, such that most of the samples are right.

    The assignment of Kuhn 1955, as Xie et al. 2016 (*Unsupervised deep embedding for clustering analysis*) measure
    clusterings.
    """
    from scipy.optimize import linear_sum_assignment

    result: NDArray[np.int64] = linear_sum_assignment(_counts(member, truth, classes, classes), maximize=True)[1]
    return result.astype(np.int64)


def _counts(member: Labels, truth: Labels, clusters: int, classes: int) -> NDArray[np.int64]:
    """Return how many samples of each cluster have each label."""
    found = np.zeros((clusters, classes), np.int64)
    np.add.at(found, (member, truth), 1)
    return found
