"""Students without a network: nearest labels, or labels spread over a graph.

All are deterministic and trained in one step.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.blocks import blocks
from patebench.features.cells import centres, nearest
from patebench.models.estimators import Estimator
from patebench.models.scaling import Columns
from patebench.students.interface import Features, StudentConfig, StudentData, StudentTrainer
from patebench.students.supervised import LogProbabilities, OneStepTrainer
from patebench.students.table_regression import fitted

#: Share of a sample's label that comes from its neighbours; the remaining share is its released label.
_ALPHA = 0.8
#: Largest pool whose graph joins all pairs of samples; larger pools use nearest neighbours, to save memory.
_DENSE = 4_000
_NEIGHBOURS = 7
#: Maximum number of steps of spreading, which converges long before: each step shrinks changes by the factor `_ALPHA`.
_MOST_STEPS = 1_000
#: Samples per batch of predictions.
_BLOCK = 1_000


def nearest_label(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the trainer of a student that gives each sample the label of the nearest cluster centre.

    There is one cluster per labelled sample of the pool. Each sample of the pool belongs to the cluster of the nearest
    labelled sample. The centre of a cluster is the mean of its samples. Distances are between features
    (`data.features`) or, without features, between samples.
    """
    features = data.features or _make_flattener(data.pool)

    def fit() -> LogProbabilities:
        labels, means = data.labels[data.labelled], centres(features(data.pool), data.labelled)

        def log_probabilities(x: NDArray[Any]) -> NDArray[np.float64]:
            predicted = labels[nearest(features(x), means)]
            return np.where(np.arange(data.classes) == predicted[:, None], 0.0, -np.inf)

        return log_probabilities

    return OneStepTrainer(fit, "nearest-label")


def _make_flattener(pool: NDArray[Any]) -> Features:
    """Return a function that flattens samples to vectors, divided by the length of the longest vector of `pool`.

    Tables are standardised first.
    """
    columns = None if pool.dtype == np.uint8 else Columns.of(pool)

    def flatten(x: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(columns.transform(x) if columns else x.reshape(len(x), -1), np.float64)

    length = float(np.sqrt(np.square(flatten(pool)).sum(axis=1)).max()) or 1.0
    return lambda x: flatten(x) / length


def label_spreading(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the trainer of a student that spreads labels over a graph of the whole pool.

    After Zhou et al. 2004, *Learning with local and global consistency*: samples of the pool pass their labels on to
    similar samples until nothing changes. Released labels may change too.
    """
    kernel = "rbf" if len(data.pool) <= _DENSE else "knn"
    learner = Estimator(lambda seed: Spreading(kernel), data.classes, standardise=data.pool.dtype != np.uint8)

    def fit() -> LogProbabilities:
        learner.fit(data.pool, data.labels, seed=seed)
        return learner.log_probabilities

    settings = {"kernel": kernel, "alpha": _ALPHA, "neighbours": _NEIGHBOURS}
    return OneStepTrainer(fit, "label-spreading", settings=settings)


def table_spreading(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the trainer of a `label_spreading` student that starts from labels predicted by a regression.

    The regression learns from the released table of noisy counts (`table_regression.py`), and labels all samples of the
    pool. `data.labels` are not read.
    """
    labels = fitted(data, "table-spreading")(data.pool).argmax(axis=1)
    return label_spreading(replace(data, labels=labels), config, seed)


class Spreading:
    """Scikit-learn's LabelSpreading with a kernel width that is adapted to the pool, so features may have any scale.

    With `kernel` "rbf", the similarity of two samples is exp(−d²/s²), where d is their distance. The width s is half of
    the median distance from a sample to its 7th nearest neighbour. With a larger width, the many distant samples would
    outvote the near ones. With "knn", a sample is similar only to its 7 nearest neighbours.
    """

    classes_: NDArray[np.int64]

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel

    def fit(self, x: NDArray[np.floating], y: NDArray[np.integer]) -> None:
        """Spread the labels `y` (samples,) over the samples `x` (samples, features); −1 means no label."""
        from sklearn.semi_supervised import LabelSpreading

        x, near = x.astype(np.float64), min(_NEIGHBOURS, len(x) - 1)
        options = {"gamma": _kernel_gamma(x, near)} if self.kernel == "rbf" else {"n_neighbors": near}
        self.model = LabelSpreading(kernel=self.kernel, alpha=_ALPHA, max_iter=_MOST_STEPS, **options).fit(x, y)
        self.classes_ = self.model.classes_

    def predict_proba(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the probabilities (samples, classes) of the classes `classes_` for samples `x` (samples, features).

        The probabilities of a sample are equal if no label reaches it.
        """
        probabilities = np.empty((len(x), len(self.classes_)))
        for rows in blocks(len(x), _BLOCK):
            with np.errstate(invalid="ignore"):  # 0/0 for samples that no label reaches
                probabilities[rows] = self.model.predict_proba(x[rows].astype(np.float64))
        return np.where(np.isnan(probabilities), 1 / len(self.classes_), probabilities)


def _kernel_gamma(x: NDArray[Any], near: int) -> float:
    """Return 1/s² for samples `x`, with s half of the median distance from a sample to its `near`-th neighbour."""
    from sklearn.neighbors import NearestNeighbors

    distance = NearestNeighbors(n_neighbors=near).fit(x).kneighbors()[0][:, -1]
    return 4 / max(float(np.median(distance)) ** 2, float(np.finfo(np.float32).tiny))
