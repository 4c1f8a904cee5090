"""Release private labels of public samples: noisy histograms of public clusters, and randomised response with a prior.

ε protects one label. Clusters are computed from public features. A replaced label changes two counts of its cluster's
label histogram by 1 each, so Laplace noise of scale b on each count costs ε = 2/b.

*Randomised response with a prior* (RRWithPrior: Ghazi, Golowich, Kumar, Manurangsi, Zhang 2021, Algorithm 2) answers
with one of the k labels that are likeliest by the prior. If the true label is one of these k labels, it is the answer
with probability e^ε/(e^ε + k − 1), and each of the other k − 1 labels with probability 1/(e^ε + k − 1). Otherwise, each
of the k labels has probability 1/k. The number k is chosen such that the answer is the true label as often as possible;
no other ε-private method is right more often (Theorem 3). The prior is uniform, or the noisy histogram of the cluster
(their Figure 1b).

A similar method, ClusterRR (Esfandiari et al. 2022), also draws labels from histograms of clusters. Its exact steps are
not reproduced here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.baselines.on_features.feature_method import Array, FeatureMethod, Fitted, PrivateRecords
from patebench.core.bound import Adjacency
from patebench.core.errors import PatebenchError
from patebench.core.text import plural
from patebench.features.query_clusters import clustered, count_labels

Labels = NDArray[np.integer]
Rng = np.random.Generator

#: Share of ε that is spent on the noisy histograms of a prior, if it has any; the labels are released with the rest.
_PRIOR_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class LabelMethod(FeatureMethod):
    """Base class of methods for label DP: the samples of the pool are public, and only their labels are private.

    Record i is sample i of the pool. ε holds for one replaced label.
    """

    adjacency = Adjacency.REPLACE_LABEL
    accounted = ("basic", "basic", "Dwork & Roth 2014, Theorem 3.6 and Corollary 3.15, for one replaced label")

    def costs(self, delta: float) -> tuple[float, float]:
        return (np.inf if self.noise == 0 else 1 / self.noise), np.inf

    def noisy_histograms(self, member: Labels, labels: Labels, shape: tuple[int, int], scale: float, rng: Rng) -> Array:
        """Return the number of samples with each label in each cluster, plus Laplace noise of scale `scale`.

        `member` (samples,) is the cluster of each sample, and `labels` (samples,) the label. `shape` is (clusters,
        classes), the shape of the result. A replaced label changes two counts by 1.
        """
        counts = count_labels(member, labels, shape).astype(np.float64)
        return counts + rng.laplace(scale=scale, size=shape) if scale else counts


@dataclass(frozen=True, kw_only=True)
class ClusterHistograms(LabelMethod):
    """Method that gives all samples of a public cluster the label with the largest noisy count in this cluster."""

    clusters: int = 100

    def fit(self, private: PrivateRecords, pool: Array, classes: int, rng: Rng) -> Fitted:
        member, means = _cluster_pool(pool, self.clusters)
        table = self.noisy_histograms(member, private.labels, (len(means), classes), 2 * self.noise, rng)

        def scores(features: Array) -> Array:
            return table[_nearest(features, means)]

        return Fitted(scores, f"{len(means)} clusters", table.size, self.read(table[member], rng))

    def read(self, histograms: Array, rng: Rng) -> NDArray[np.int64]:
        """Choose a label for each sample from the noisy counts of its cluster; return the labels (samples,).

        Row i of `histograms` (samples, classes) contains the counts of the cluster of sample i.
        """
        return histograms.argmax(axis=1)


@dataclass(frozen=True, kw_only=True)
class ClusterResampling(ClusterHistograms):
    """Method that draws each sample's label in proportion to its cluster's noisy counts; negative counts become 0."""

    def read(self, histograms: Array, rng: Rng) -> NDArray[np.int64]:
        return draw(shares(histograms), rng)


@dataclass(frozen=True, kw_only=True)
class RandomisedResponse(LabelMethod):
    """Method that releases each label by randomised response with a prior (RRWithPrior).

    If `clusters` is None, the prior is uniform. Otherwise, the pool is divided into this number of clusters, and the
    prior of a sample is the noisy label histogram of its cluster.
    """

    clusters: int | None = None

    def fit(self, private: PrivateRecords, pool: Array, classes: int, rng: Rng) -> Fitted:
        from sklearn.linear_model import RidgeCV

        epsilon, prior = self.costs(0.0)[0], np.full((len(pool), classes), 1 / classes)
        if self.clusters is not None:
            member, means = _cluster_pool(pool, self.clusters)
            scale, shape = 2 * self.noise / _PRIOR_SHARE, (len(means), classes)
            prior = shares(self.noisy_histograms(member, private.labels, shape, scale, rng))[member]
            epsilon *= 1 - _PRIOR_SHARE
        labels = draw(response(private.labels, prior, epsilon), rng)
        answers = np.eye(classes)[labels]
        scale = max(float(pool.var(axis=0).mean()), 1e-9)  # positive if all samples are equal
        with np.errstate(invalid="ignore"):  # a single sample leaves none for its own validation
            line = RidgeCV(np.logspace(-4, 2, 7) * len(pool) * scale).fit(pool, answers)
        return Fitted(line.predict, "linear", line.coef_.size + classes, labels)


def response(labels: Labels, prior: Array, epsilon: float) -> Array:
    """Return the probability (samples, classes) of each class as the answer of RRWithPrior at ε = `epsilon`.

    `labels` (samples,) are the true labels, and `prior` (samples, classes) are public probabilities of the classes.
    Only the k likeliest classes of a sample by `prior` are possible answers. The number k maximises the probability,
    under the prior, that the answer is the true label.
    """
    order = np.argsort(-prior, axis=1, kind="stable")
    size = np.arange(1, prior.shape[1] + 1)
    kept = 1 / (1 + (size - 1) * np.exp(-epsilon))  # probability of the true label among k
    best = (np.cumsum(np.take_along_axis(prior, order, axis=1), axis=1) * kept).argmax(axis=1)
    allowed = np.empty(prior.shape, dtype=bool)
    np.put_along_axis(allowed, order, size - 1 <= best[:, None], axis=1)
    true = labels[:, None] == np.arange(prior.shape[1])
    probabilities = np.where(allowed, np.where(true, 1.0, np.exp(-epsilon)), 0.0)
    known = (allowed & true).any(axis=1, keepdims=True)
    return np.where(known, probabilities * kept[best][:, None], allowed / size[best][:, None])


def shares(histograms: Array) -> Array:
    """Turn noisy `histograms` (histograms, classes) into probabilities.

    Negative counts become 0, and each histogram is divided by its sum. A histogram without positive counts becomes
    uniform.
    """
    positive = np.maximum(histograms, 0)
    positive[~positive.any(axis=1)] = 1
    return positive / positive.sum(axis=1, keepdims=True)


def draw(probabilities: Array, rng: Rng) -> NDArray[np.int64]:
    """Draw one class for each row of `probabilities` (rows, classes); return the classes (rows,)."""
    with np.errstate(divide="ignore"):
        return (np.log(probabilities) + rng.gumbel(size=probabilities.shape)).argmax(axis=1)


def _cluster_pool(pool: Array, clusters: int) -> tuple[Labels, Array]:
    """Cluster the pool's features `pool`; return the samples' clusters (samples,) and the means (clusters, features).

    Raises PatebenchError if there are more clusters than samples.
    """
    if clusters > len(pool):
        line = f"{clusters} clusters are more than the {plural(len(pool), 'sample')} of the pool; use fewer clusters"
        raise PatebenchError(line, code="bound")
    member, _ = clustered(pool, clusters)
    names, member = np.unique(member, return_inverse=True)
    return member, np.stack([pool[member == cluster].mean(axis=0) for cluster in range(len(names))])


def _nearest(features: Array, means: Array) -> Labels:
    return (np.square(means).sum(axis=1) - 2 * features @ means.T).argmin(axis=1)
