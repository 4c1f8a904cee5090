"""The plainest student: a learner fitted to the released labels, the rest of the pool unused."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.models.learner import Learner, Progress


def train(
    make: Callable[[], Learner],
    pool: NDArray[Any],
    labels: NDArray[np.integer],
    *,
    seed: int,
    progress: Progress | None = None,
) -> Learner:
    """Fit a learner to those of the first `len(labels)` samples of `pool` that were answered (label ≥ 0)."""
    answered = np.flatnonzero(labels >= 0)
    learner = make()
    learner.fit(pool[answered], labels[answered], seed=seed, progress=progress)
    return learner
