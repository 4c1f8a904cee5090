"""The student's own least confident samples (PATE 2017, Appendix C.2, third attempt)."""

import numpy as np
from numpy.typing import NDArray

from patebench.students.strategies.situation import Situation


def choose(situation: Situation, queries: int, seed: int) -> NDArray[np.intp]:
    """The open samples whose likeliest class is least likely, the least likely first."""
    assert situation.predictions is not None
    confidence = situation.predictions[situation.unasked].max(axis=1)
    return situation.unasked[np.argsort(confidence, kind="stable")[:queries]]
