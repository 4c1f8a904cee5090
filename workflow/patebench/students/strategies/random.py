"""Random queries, the baseline of every other strategy."""

import numpy as np
from numpy.typing import NDArray

from patebench.students.strategies.acquisition_state import AcquisitionState


def acquire(state: AcquisitionState, queries: int, seed: int) -> NDArray[np.intp]:
    """The next samples of the pool, in its order: the split has shuffled it, so they are random.

    The labels of a first round are therefore the first ones of a label set of the whole pool.
    """
    return state.unqueried[:queries]
