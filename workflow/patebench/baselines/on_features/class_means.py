"""DPPL-Mean (Wahdany et al., AAAI 2025): a class is the noisy mean of its private records' features.

The authors estimate each mean in several steps (CoinPress, Biswas et al. 2020). Here, features minus the pool's mean
are clipped and summed once. A sample belongs to the class whose sum is nearest by cosine, as in the paper, so the
number of records in a class is not needed.
"""

from dataclasses import dataclass

import numpy as np

from patebench.baselines.on_features.feature_method import Array, Fitted, GaussianSums, PrivateRecords
from patebench.baselines.on_features.feature_sums import Scaling, class_sums


@dataclass(frozen=True, kw_only=True)
class ClassMeans(GaussianSums):
    """Sums of vectors v ⊗ e_y, ‖v‖ ≤ 1. If a record is replaced by one of its class, v and v' may be opposite."""

    distances = 4.0, 1.0

    #: Number of principal axes of the pool that are used; None for all.
    dimensions: int | None = None

    def fit(self, private: PrivateRecords, pool: Array, classes: int, rng: np.random.Generator) -> Fitted:
        scaling = Scaling.of(pool, self.dimensions)
        table = self.noisy(class_sums(scaling.units(private.features), private.labels, classes), rng)
        prototypes = table / np.maximum(np.linalg.norm(table, axis=0), 1e-12)

        def scores(features: Array) -> Array:
            similarity: Array = scaling.along(features) @ prototypes
            return similarity

        return Fitted(scores, "class means", table.size)
