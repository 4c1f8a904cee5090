"""What a student knows when it asks: plain values, free of torch and of files."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.students.lesson import Approach, Lesson


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The public pool, what was asked of it, and what came of it.

    `asked` are the positions that were asked before, answered or not; `predictions` (samples × classes) what the
    student thinks of the whole pool, None before there is a student; `approach` how it learns; `features` (samples ×
    features) are near each other for samples that are alike, None for strategies that are not in `FEATURED`.
    """

    lesson: Lesson
    asked: NDArray[np.integer]
    predictions: NDArray[np.floating] | None
    approach: Approach
    features: NDArray[np.floating] | None = None

    @property
    def unasked(self) -> NDArray[np.intp]:
        """The positions that were not asked yet, in the order of the pool."""
        return np.setdiff1d(np.arange(len(self.lesson.pool)), self.asked)
