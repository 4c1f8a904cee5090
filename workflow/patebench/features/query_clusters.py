"""What the public pool tells of queries that stand for clusters of it: their sizes, and which are near each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from patebench.models.cells import centres, nearest

Array = NDArray[np.float64]

#: Clusters that share less than this of their samples' second choices are not near: chance brings as much.
_LEAST = 0.05


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
        """From the pool's `features` (samples, features), of which `queries` are positions. All of it is public.

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
    """The share of samples of each of so many clusters."""
    found: Array = np.bincount(member, minlength=count) / len(member)
    return found
