"""What the public pool tells of queries that stand for clusters of it: their sizes, and which are near each other."""

from dataclasses import dataclass
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

    `nearness` is symmetric and 0 on its diagonal: of the samples of one cluster, the share that would be in the other
    one if there were no cluster of their own, and vice versa, on average.
    """

    sizes: Array
    nearness: Array

    @classmethod
    def of(cls, features: NDArray[np.floating], queries: NDArray[np.integer]) -> Self:
        """From the pool's `features` (samples, features), of which `queries` are positions. All of it is public."""
        means, count = centres(features, queries), len(queries)
        member, second = nearest(features, means), np.zeros((count, count))
        for cluster in range(count if count > 1 else 0):
            others = np.delete(np.arange(count), cluster)
            beside = others[nearest(features[member == cluster], means[others])]
            second[cluster] = np.bincount(beside, minlength=count) / max(1, len(beside))
        nearness = (second + second.T) / 2
        return cls(np.bincount(member, minlength=count) / len(features), np.where(nearness < _LEAST, 0.0, nearness))
