"""Random queries, which every other strategy is measured against."""

import numpy as np
from numpy.typing import NDArray

from patebench.students.strategies.situation import Situation


def choose(situation: Situation, queries: int, seed: int) -> NDArray[np.intp]:
    """The next samples of the pool, which the split has shuffled: so the labels are those of a release of the pool."""
    return situation.unasked[:queries]
