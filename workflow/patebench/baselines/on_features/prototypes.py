"""DPPL (Wahdany et al., AAAI 2025): a class is a noisy mean of features, or public samples chosen as its prototypes.

DPPL-Mean: the authors estimate each mean in several steps (CoinPress, Biswas et al. 2020). Here, features minus the
pool's mean are clipped and summed once. A sample belongs to the class whose sum is nearest by cosine, as in the paper,
so the number of records in a class is not needed.

DPPL-Public: the exponential mechanism chooses K public samples as prototypes of a class (Top-K). Each private record of
the class adds a number from 0 to 1 to the score of a public sample: the similarity of record and sample, clipped and
scaled. The utility of a set of K samples is the smallest of their scores. A set is drawn with probability proportional
to e^(η·utility), as follows:

- Number the samples by descending score, so that sample 1 has the largest score.
- Draw the sample with the smallest score in the set: sample j with probability proportional to
  C(j − 1, K − 1)·e^(η·score), since C(j − 1, K − 1) sets have sample j as their last one.
- Draw the other K − 1 samples uniformly from samples 1 to j − 1.

Proof: docs/explanation/proofs-systems.md, "Methods on public features".
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from patebench.baselines.on_features.feature_method import (
    Array,
    FeatureMethod,
    Fitted,
    GaussianSums,
    PrivateRecords,
)
from patebench.baselines.on_features.feature_sums import BLOCK, Scaling, class_sums, clipped
from patebench.core.blocks import blocks
from patebench.core.text import plural

#: Grid units in a length of 1, at which sums of products of two vectors are exact in single precision (24 bits).
_SHORT = 2.0**12
#: Factor by which vectors are multiplied before they are clipped to length 1. Vectors of at least length 1/16 then have
#: length 1.
_LONG = 16.0
#: Grid units in a score of 1, and records per block, whose sums of scores are exact in single precision.
_SCORE, _BLOCK = 2.0**12, 1 << 11
#: Quantiles of the similarities within the pool that become the scores 0 and 1.
_CLIPPED = 0.5, 0.99


@dataclass(frozen=True, kw_only=True)
class ClassMeans(GaussianSums):
    """Method DPPL-Mean: the prototype of a class is the noisy sum of the feature vectors of its records.

    Only the direction of a prototype is used. Vectors have at most length 1, so replacing a record by one of the same
    class changes the sum by at most 2 in L2 norm.
    """

    squared_changes = 4.0, 1.0

    #: Number of principal axes of the pool that are used; None for all.
    dimensions: int | None = None

    def fit(self, private: PrivateRecords, pool: Array, classes: int, rng: np.random.Generator) -> Fitted:
        scaling = Scaling.of(pool, self.dimensions)
        table = self.noisy(class_sums(scaling.units(private.features), private.labels, classes), rng)
        prototypes = table / np.maximum(np.linalg.norm(table, axis=0), 1e-12)

        def scores(features: Array) -> Array:
            return scaling.along(features) @ prototypes

        return Fitted(scores, "class means", table.size)


@dataclass(frozen=True, kw_only=True)
class PublicPrototypes(FeatureMethod):
    """Method DPPL-Public: the exponential mechanism draws `prototypes` public samples per class.

    For each class, one draw returns a set of prototypes with probability ∝ exp(η · utility), where η = 1/`noise`. The
    utility of a set is the smallest score of its samples (`_class_scores`). Adding or removing a record changes only
    the utilities of its class, all in one direction, by at most 1. So ε = η for all classes together. Replacing a
    record is one removal and one addition, so ε = 2η. Both hold at δ = 0.
    """

    accounted = ("pure", "pure", "McSherry & Talwar 2007, monotone utility; parallel composition over classes")

    prototypes: int = 1

    def costs(self, delta: float) -> tuple[float, float]:
        rate = np.inf if self.noise == 0 else 1 / self.noise
        return 2 * rate, rate

    def fit(self, private: PrivateRecords, pool: Array, classes: int, rng: np.random.Generator) -> Fitted:
        mean = pool.mean(axis=0)
        public = _directions(pool - mean)
        low, high = _similarity_range(public)
        scores = np.zeros((len(pool), classes))
        for label in range(classes):
            records = private.features[private.labels == label]
            scores[:, label] = _class_scores(public, _directions(records - mean), low, high)
        chosen = self.choose(scores, rng)
        prototypes = public[chosen].astype(np.float64) / _SHORT

        def similarity(features: Array) -> Array:
            return np.max(np.einsum("sd,ckd->csk", features - mean, prototypes, optimize=True), axis=2).T

        return Fitted(similarity, f"{plural(self.prototypes, 'public prototype')} per class", classes * self.prototypes)

    def choose(self, scores: Array, rng: np.random.Generator) -> NDArray[np.intp]:
        """Draw the prototypes of each class by the exponential mechanism; return their positions in the pool.

        Positions are (classes, prototypes), ascending for each class. `scores` (pool, classes) are the scores of public
        samples for each class; one record changes the scores of its class by at most 1. The returned positions are all
        that the method releases about the records.
        """
        count = min(self.prototypes, len(scores))
        rank = np.arange(count - 1, len(scores))
        ways = gammaln(rank + 1) - gammaln(count) - gammaln(rank - count + 2)
        chosen = np.empty((scores.shape[1], count), dtype=np.intp)
        for label, own in enumerate(scores.T):
            order = np.argsort(-own, kind="stable")
            # Gumbel noise: the largest sum is a draw with probability proportional to e^weight, here at noise 1/η.
            last = int(rank[np.argmax(own[order[rank]] + self.noise * (ways + rng.gumbel(size=len(rank))))])
            # Sorted, because only the set of positions is private: the sample of lowest rank was drawn last.
            chosen[label] = np.sort(order[np.append(rng.permutation(last)[: count - 1], last)])
        return chosen


def _directions(vectors: Array) -> NDArray[np.float32]:
    """Return `vectors` (samples, features) scaled to length 1, as integers in units of 1/`_SHORT`.

    A vector shorter than 1/16 is multiplied by 16 instead. The result for a vector does not depend on other vectors.
    """
    units = np.empty(vectors.shape, np.float32)
    for rows in blocks(len(vectors), BLOCK):
        units[rows] = clipped(vectors[rows] * _LONG, unit=_SHORT)
    return units


def _similarity_range(public: NDArray[np.float32]) -> tuple[float, float]:
    """Return the two similarities at which a record adds 0 and 1 to a public sample's score.

    They are quantiles of the similarities of pairs among the first 1,000 samples in `public`.
    """
    some = public[:1000]
    similar = (some @ some.T)[np.triu_indices(len(some), 1)] / _SHORT**2
    low, high = np.quantile(similar, _CLIPPED) if len(similar) else (0.0, 1.0)
    return float(low), max(float(high), float(low) + 1e-6)


def _class_scores(public: NDArray[np.float32], records: NDArray[np.float32], low: float, high: float) -> Array:
    """Return the scores (samples,) of the samples in `public` for one class, whose private records are `records`.

    The score of a sample is a sum over the records. Each record adds its similarity to the sample, clipped to `low` …
    `high` and scaled to 0 … 1. All vectors are in units of 1/`_SHORT`.
    """
    total = np.zeros(len(public))
    for rows in blocks(len(records), _BLOCK):
        similar = records[rows] @ public.T
        similar -= np.float32(low * _SHORT**2)
        similar *= np.float32(_SCORE / (high - low) / _SHORT**2)
        np.clip(similar, 0, _SCORE, out=similar)
        # Sums of integers are exact in any order of the records.
        np.trunc(similar, out=similar)
        total += np.ones(len(similar), np.float32) @ similar
    return total / _SCORE
