"""Smooth contrastive features over the pool's graph of nearest neighbours, so that clusters follow that graph.

In the features of `contrast.py`, classes are often elongated and curved, and k-means, which divides along planes, cuts
through classes. A random walk between near samples seldom leaves a class. So the features of a sample are replaced by
the mean features over the endpoints of such a walk (Wu et al. 2019, *Simplifying graph convolutional networks*, without
the regression). With ten clusters of a pool of MNIST, 96 % of the samples have the majority class of their cluster, and
94 % without smoothing (seeds 0 to 2).

A sample that is not in the pool gets the mean over its nearest neighbours in the pool, which depends only on the sample
and on public data.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from patebench.core.errors import PatebenchError
from patebench.core.progress import Report, silent
from patebench.features import Encoder, contrast
from patebench.features.cells import nearest_several, on_grid

#: Numbers of neighbours (of 10 and 20) and of steps (of 3, 10 and 30), chosen with true labels of MNIST, seeds 0 to 2.
NEIGHBOURS, STEPS = 20, 30

Array = NDArray[np.float64]


class GraphEncoder(Encoder):
    """Encoder that smooths contrastive features by a random walk on the pool's graph of nearest neighbours.

    `anchors` (samples, features) are the pool's contrastive features, computed by the encoder `base`, and `smoothed`
    the pool's features after the walk.
    """

    kind = "graph"

    def __init__(
        self, base: contrast.ContrastEncoder, anchors: NDArray[np.float32], smoothed: NDArray[np.float32]
    ) -> None:
        self.shape, self.base, self.anchors, self.smoothed = base.shape, base, anchors, smoothed

    @classmethod
    def learn(cls, pool: NDArray[Any], report: Report = silent) -> Self:
        if len(pool) < 2:
            raise PatebenchError("the pool has one sample, which has no neighbours; use the encoder contrastive")
        base = contrast.ContrastEncoder.learn(pool, report)
        anchors = base.features(pool).astype(np.float32)
        return cls(base, anchors, walked(anchors).astype(np.float32))

    def features(self, x: NDArray[Any]) -> Array:
        return self._average_neighbours(self.base.features(x))

    def features_alone(self, x: NDArray[Any], report: Report = silent) -> Array:
        """Return features (records, features) of `x`, each computed alone; sums over neighbours are exact."""
        return self._average_neighbours(self.base.features_alone(x, report))

    def _average_neighbours(self, vectors: Array) -> Array:
        """Return the mean smoothed features of the pool's samples nearest to each of the contrastive `vectors`."""
        near = nearest_several(vectors, self.anchors, min(NEIGHBOURS, len(self.anchors)))
        smoothed, sums = on_grid(self.smoothed), np.zeros_like(vectors)
        for column in near.T:
            sums += smoothed[column]
        return sums / (on_grid(np.ones(1)) * near.shape[1])

    def arrays(self) -> dict[str, NDArray[Any]]:
        base = self.base.arrays()  # the features of the pool follow the network's weights
        return base | {"weights": np.concatenate([base["weights"], self.anchors.ravel(), self.smoothed.ravel()])}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        shape, weights = tuple(map(int, arrays["shape"])), arrays["weights"]
        size = len(contrast.ContrastEncoder.for_shape(shape).arrays()["weights"])
        if len(weights) <= size or (len(weights) - size) % (2 * contrast.WIDTH):
            raise PatebenchError("its arrays are not those of a graph encoder")
        base = contrast.ContrastEncoder.of({**arrays, "weights": weights[:size]})
        anchors, smoothed = weights[size:].reshape(2, -1, contrast.WIDTH)
        return cls(base, anchors, smoothed)


def walked(vectors: NDArray[np.floating]) -> Array:
    """Smooth `vectors` (samples, features): return the mean vector at the end of random walks from each sample.

    The means (samples, features) are scaled to unit length. In the graph of the walk, samples are joined if one is
    among the nearest neighbours of the other. The edge of samples i and j at distance d has weight exp(−d²/(rᵢrⱼ)),
    where rᵢ is the distance of i to its farthest neighbour (Zelnik-Manor & Perona 2004), so that sparse regions stay
    connected.
    """
    near = min(NEIGHBOURS, len(vectors) - 1)
    distance, neighbour = NearestNeighbors(n_neighbors=near + 1).fit(vectors).kneighbors(vectors)
    reach = np.maximum(distance[:, -1], 1e-12)
    weight = np.exp(-np.square(distance[:, 1:]) / (reach[:, None] * reach[neighbour[:, 1:]]))
    rows = np.repeat(np.arange(len(vectors)), near)
    edges = sparse.csr_array((weight.ravel(), (rows, neighbour[:, 1:].ravel())), shape=(len(vectors),) * 2)
    edges = edges.maximum(edges.T)
    total = edges.sum(axis=1)
    alone = total == 0  # all edge weights underflow, as the neighbours are equal samples with tiny r
    step = sparse.diags_array(1 / np.where(alone, 1, total)) @ edges
    if alone.any():
        step = step + sparse.diags_array(alone.astype(np.float64))
    means = np.asarray(vectors, dtype=np.float64)
    for _ in range(STEPS):
        means = np.asarray(step @ means)
    return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
