"""What an acquisition strategy chooses by: plain values, free of torch and of files, all of them public."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.students.interface import StudentConfig, StudentData


@dataclass(frozen=True, kw_only=True)
class AcquisitionState:
    """The pool with the labels released so far, and what a student and features say of it.

    `queried` (queries,) are the positions that were queried before, whether answered or not. `predictions` (samples,
    classes) are the student's probabilities for the whole pool, None before there is a student. `config` is how the
    student is trained. `features` (samples, features) are near each other for samples that are alike, None for
    strategies that need none.
    """

    data: StudentData
    queried: NDArray[np.integer]
    predictions: NDArray[np.floating] | None
    config: StudentConfig
    features: NDArray[np.floating] | None = None

    @property
    def unqueried(self) -> NDArray[np.intp]:
        """The positions that were not queried yet, in the order of the pool."""
        return np.setdiff1d(np.arange(len(self.data.pool)), self.queried)
