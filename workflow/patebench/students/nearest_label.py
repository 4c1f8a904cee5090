"""No student: each sample has the released label of the query that it lies nearest to.

What labels of clusters are worth by themselves, so that one sees what a student adds. Nearness is that of the features
by which the queries were chosen, where the student is given these, and that of the samples themselves otherwise.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.features.cells import centres, nearest
from patebench.models.learner import Progress
from patebench.models.scaling import Columns
from patebench.students.interface import Features, StudentConfig, StudentData, StudentTrainer
from patebench.students.supervised import EstimatorTrainer


def trainer(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """The trainer of a list of labelled points, in one step: nothing is random, and there are no epochs."""
    learner = NearestLabel(data.features or _of_samples(data.pool), data.classes)
    return EstimatorTrainer(learner, data.pool, data.labels, seed, "nearest-label", "own")


class NearestLabel:
    """A learner: each label is that of a cell of the pool, by `features`, and of all samples that belong there."""

    def __init__(self, features: Features, classes: int) -> None:
        self.features, self.classes = features, classes

    def fit(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, progress: Progress | None = None) -> None:
        """Find the means for the pool `x` (samples, …) and its labels `y` (samples,), −1 for samples without one."""
        labelled = np.flatnonzero(y >= 0)
        self.labels = y[labelled].astype(np.int64)
        self.centres = centres(self.features(x), labelled)
        if progress:
            progress(1, 1)

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.labels[nearest(self.features(x), self.centres)]
        return found

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        return np.where(np.arange(self.classes) == self.predict(x)[:, None], 0.0, -np.inf)

    def save(self, path: Any) -> None:
        raise PatebenchError("labels of cells are no model that can be kept; set keep_weights: false")


def _of_samples(pool: NDArray[Any]) -> Features:
    """Bytes as they are, columns of tables standardised by the pool; no vector of the pool is longer than 1."""
    columns = None if pool.dtype == np.uint8 else Columns.of(pool)

    def flat(x: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(columns.transform(x) if columns else x.reshape(len(x), -1), np.float64)

    length = float(np.sqrt(np.square(flat(pool)).sum(axis=1)).max()) or 1.0
    return lambda x: flat(x) / length
