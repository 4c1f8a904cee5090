"""How many of the released labels are right, as drawn and as expected."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Votes
from patebench.mechanisms.base import Mechanism


def label_accuracy(labels: NDArray[Any], truth: NDArray[Any]) -> float | None:
    """The share of answered labels that are right, or None when nothing was answered."""
    answered = labels >= 0
    return float(np.mean(labels[answered] == truth[answered])) if answered.any() else None


def expected_label_accuracy(mechanism: Mechanism, votes: Votes, truth: NDArray[Any]) -> float | None:
    """The expected number of right labels over the expected number of answers, both exact, given the votes.

    None when nothing is ever answered, or when the mechanism does not know the distribution of its labels.
    """
    log_p = mechanism.log_outcome_probabilities(votes)
    if log_p is None:
        return None
    right = np.exp(log_p[np.arange(len(truth)), truth]).sum()
    answered = -np.expm1(log_p[:, -1]).sum()
    return float(min(right / answered, 1.0)) if answered > 0 else None
