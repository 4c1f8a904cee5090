"""Students without a network: each sample has the label of its nearest query, or labels spread over a graph.

Neither draws random numbers, and each is made in one step.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.features.cells import centres, nearest
from patebench.models.estimators import Estimator
from patebench.models.scaling import Columns
from patebench.students.interface import Features, StudentConfig, StudentData, StudentTrainer
from patebench.students.supervised import LogProbabilities, OneStepTrainer

#: How much of a sample's label comes from its neighbours; the rest is the label that was released for it.
_ALPHA = 0.8
#: Larger pools have a graph of nearest neighbours: every pair of samples would take gigabytes.
_DENSE = 4_000
_NEIGHBOURS = 7
#: Spreading shrinks a change to `_ALPHA` of it each time, so it ends long before.
_MOST_STEPS = 1_000
#: Samples predicted at once.
_BLOCK = 1_000


def nearest_label(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the trainer of a student that gives each sample the label of the cell of the pool it lies in.

    It shows what labels of clusters are worth by themselves, so that one sees what a student adds. Nearness is that of
    the features by which the queries were chosen, where the student is given these, and else that of the samples.
    """
    features = data.features or _of_samples(data.pool)

    def fit() -> LogProbabilities:
        labels, means = data.labels[data.labelled], centres(features(data.pool), data.labelled)

        def log_probabilities(x: NDArray[Any]) -> NDArray[np.float64]:
            predicted = labels[nearest(features(x), means)]
            return np.where(np.arange(data.classes) == predicted[:, None], 0.0, -np.inf)

        return log_probabilities

    return OneStepTrainer(fit, "nearest-label")


def _of_samples(pool: NDArray[Any]) -> Features:
    """Return features: bytes as they are, columns of tables standardised; no vector of the pool is longer than 1."""
    columns = None if pool.dtype == np.uint8 else Columns.of(pool)

    def flat(x: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(columns.transform(x) if columns else x.reshape(len(x), -1), np.float64)

    length = float(np.sqrt(np.square(flat(pool)).sum(axis=1)).max()) or 1.0
    return lambda x: flat(x) / length


def label_spreading(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the trainer of a graph of the whole pool.

    Zhou et al. 2004, *Learning with local and global consistency*: samples of the pool pass their labels on to samples
    like them until nothing changes; released labels may change too.
    """
    kernel = "rbf" if len(data.pool) <= _DENSE else "knn"
    standardise = data.pool.dtype != np.uint8
    learner = Estimator(lambda seed: Spreading(kernel, standardise), data.classes)

    def fit() -> LogProbabilities:
        learner.fit(data.pool, data.labels, seed=seed)
        return learner.log_probabilities

    settings = {"kernel": kernel, "alpha": _ALPHA, "neighbours": _NEIGHBOURS}
    return OneStepTrainer(fit, "label-spreading", settings=settings)


class Spreading:
    """Scikit-learn's LabelSpreading with a scale that suits the pool, for samples (samples, features) of any size.

    With the kernel "rbf" two samples are alike by exp(−d²/s²), d their distance and s half of the usual one of a sample
    to its last near neighbour: with a wider kernel the many samples far away outvote the near ones. With "knn" a sample
    is like its near neighbours alone. With `standardise` features are standardised.
    """

    classes_: NDArray[np.int64]

    def __init__(self, kernel: str, standardise: bool) -> None:
        self.kernel, self.standardise = kernel, standardise

    def fit(self, x: NDArray[np.float32], y: NDArray[np.integer]) -> None:
        """Spread the labels `y` (samples,), −1 for samples without one."""
        from sklearn.semi_supervised import LabelSpreading

        self.columns = Columns.of(x) if self.standardise else None
        scaled, near = self._scaled(x), min(_NEIGHBOURS, len(x) - 1)
        how = {"gamma": _gamma(scaled, near)} if self.kernel == "rbf" else {"n_neighbors": near}
        self.model = LabelSpreading(kernel=self.kernel, alpha=_ALPHA, max_iter=_MOST_STEPS, **how).fit(scaled, y)
        self.classes_ = self.model.classes_

    def predict_proba(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return probabilities of `classes_`; all equal for a sample that no label has reached."""
        found = np.empty((len(x), len(self.classes_)))
        for start in range(0, len(x), _BLOCK):
            with np.errstate(invalid="ignore"):  # 0/0 where nothing is reached
                found[start : start + _BLOCK] = self.model.predict_proba(self._scaled(x[start : start + _BLOCK]))
        return np.where(np.isnan(found), 1 / len(self.classes_), found)

    def _scaled(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        return np.asarray(self.columns.transform(x) if self.columns else x, np.float64)


def _gamma(x: NDArray[Any], near: int) -> float:
    """Return 1/s² of the kernel, s half of the median distance to the last of `near` nearest neighbours."""
    from sklearn.neighbors import NearestNeighbors

    distance = NearestNeighbors(n_neighbors=near).fit(x).kneighbors()[0][:, -1]
    return 4 / max(float(np.median(distance)) ** 2, float(np.finfo(np.float32).tiny))
