"""Least-confidence sampling by the student's own predictions (PATE 2017, Appendix C.2, third attempt)."""

import numpy as np
from numpy.typing import NDArray

from patebench.students.strategies.acquisition_state import AcquisitionState


def acquire(state: AcquisitionState, queries: int, seed: int) -> NDArray[np.intp]:
    """The unqueried samples whose likeliest class is least likely, in ascending order of that probability."""
    assert state.predictions is not None
    confidence = state.predictions[state.unqueried].max(axis=1)
    return state.unqueried[np.argsort(confidence, kind="stable")[:queries]]
