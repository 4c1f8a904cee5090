"""From votes to counts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def vote_counts(votes: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """How many teachers chose each class: votes (teachers × queries) to counts (queries × classes).

    One pass per teacher, so a memory-mapped vote matrix larger than memory will do.
    """
    counts = np.zeros((votes.shape[1], classes), np.int64)
    queries = np.arange(votes.shape[1])
    for row in votes:
        counts[queries, row] += 1
    return counts
