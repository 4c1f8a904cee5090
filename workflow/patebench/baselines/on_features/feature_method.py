"""Define methods on public features: their noise, their cost, and the classifier that they release.

The features of a record follow from the record alone, and have at most unit length. All other inputs are public. A
method states its ε for two kinds of neighbouring data sets: one record is *replaced* by any other record with any
label, or one record is *added or removed*.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.independent import gaussian_dp
from patebench.accounting.searches import edge
from patebench.baselines.on_features import CHANGES
from patebench.core.bound import Adjacency, Bound, Kind, check_delta

Array = NDArray[np.float64]
#: Function from features (samples, features) to scores (samples, classes); the largest one is the class.
Scores = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class PrivateRecords:
    """Private records: their `features` (records, features) and `labels` (records,).

    The features of a record are computed from this record alone.
    """

    features: Array
    labels: NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Fitted:
    """Released classifier: the function `scores` maps features (samples, features) to scores (samples, classes).

    `model` is the name of the model and `size` its number of parameters. A student is trained on `labels` (pool,), the
    labels that the method gives to samples of the public pool; −1 marks an unlabelled sample. If `labels` is None, the
    student is trained on the classifier's predictions for the whole pool.
    """

    scores: Scores
    model: str
    size: int | None = None
    labels: NDArray[np.int64] | None = None


@dataclass(frozen=True, kw_only=True)
class FeatureMethod(ABC):
    """Base class of methods that learn a classifier from features of private records, and release it with noise.

    ε falls as the noise scale `noise` rises, and is ∞ at 0.
    """

    #: Accountant of the cost, its name in tables, and its theorem.
    accounted: ClassVar[tuple[str, str, str]]
    #: Change for which `bound` states ε.
    adjacency: ClassVar[Adjacency] = Adjacency.REPLACE_RECORD

    noise: float

    @abstractmethod
    def costs(self, delta: float) -> tuple[float, float]:
        """Return ε at `delta` of all releases together: for a replaced record, and for an added or removed one."""

    @abstractmethod
    def fit(self, private: PrivateRecords, pool: Array, classes: int, rng: np.random.Generator) -> Fitted:
        """Learn and return a classifier; it depends on the records `private` only through noisy releases.

        `pool` (samples, features) are the features of the public pool, and `rng` draws the noise.
        """

    @property
    def releases(self) -> int:
        """Return the number of noisy releases that `fit` makes."""
        return 1

    def bound(self, delta: float) -> Bound:
        """Return a bound with the worst-case ε of all releases at `delta`.

        It is marked as not publishable, because the noise comes from a seeded generator.
        """
        accountant, label, source = self.accounted
        replaced, added = self.costs(check_delta(delta))
        return Bound(
            epsilon=replaced,
            delta=delta,
            queries=self.releases,
            accountant=accountant,
            kind=Kind.WORST_CASE,
            publishable=False,
            source=source,
            adjacency=self.adjacency,
            label=label,
            add_or_remove=added if self.adjacency is Adjacency.REPLACE_RECORD else None,
        )

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, change: str, **options: Any) -> Self:
        """Return the method with the least noise, rounded up, for which ε at `delta` is at most `epsilon`.

        `change` is one of `CHANGES`: it selects the ε for a replaced record or for an added or removed one. `options`
        are the method's other parameters. Raises PatebenchError if no noise reaches `epsilon`.
        """
        index = CHANGES.index(change)
        return cls(noise=edge(lambda noise: cls(noise=noise, **options).costs(delta)[index], epsilon), **options)


class GaussianSums(FeatureMethod):
    """Base class of methods that release sums over the records with noise N(0, `noise`²) on each coordinate.

    If one record changes, the squared L2 changes of all released sums add up to at most c (`squared_changes`). All
    releases together are then μ-GDP with μ = √c / `noise`: Dong, Roth, Su 2022, Theorem 2.7 (Gaussian mechanism) and
    Corollary 3.3 (composition, also if a release depends on earlier ones). Proof: docs/explanation/proofs-systems.md,
    "Methods on public features".
    """

    accounted = ("gdp", "Gaussian DP, PLD", "Dong, Roth, Su 2022, Theorem 2.7 and Corollary 3.3")

    @property
    @abstractmethod
    def squared_changes(self) -> tuple[float, float]:
        """Return two bounds on the squared L2 change of all released sums together, if one record changes.

        The first holds for a replaced record, the second for an added or removed one.
        """

    def noisy(self, sums: Array, rng: np.random.Generator) -> Array:
        """Return `sums`, which are sums over the records, plus noise N(0, `self.noise`²) on each entry.

        A subclass must not release anything else that depends on the records.
        """
        return sums + self.noise * rng.standard_normal(sums.shape)

    def costs(self, delta: float) -> tuple[float, float]:
        if self.noise == 0:
            return np.inf, np.inf
        replaced, added = (
            gaussian_dp(float(np.sqrt(distance)) / self.noise, delta) for distance in self.squared_changes
        )
        return replaced, added


def linear_scores(pool: Array, class_weights: Array) -> Scores:
    """Fit a linear classifier by ridge regression; return a function that maps features to class scores.

    `pool` (samples, features) are the features of public samples. `class_weights` (samples, classes) states how much a
    sample counts as an example of each class; samples whose weights are all 0 are not used.
    """
    weight = class_weights.sum(axis=1)
    used = weight > 0
    x, share = pool[used], weight[used] / weight.sum()
    mean = share @ x
    centred = x - mean
    covariance = (centred * share[:, None]).T @ centred
    # The penalty is the mean variance of the features.
    penalty = max(float(np.trace(covariance)) / len(covariance), 1e-9)
    target = class_weights[used] / weight.sum() - share[:, None] / class_weights.shape[1]
    weights = np.linalg.solve(covariance + penalty * np.eye(len(covariance)), centred.T @ target)

    def scores(features: Array) -> Array:
        return (features - mean) @ weights

    return scores
