"""Compute the likelihood of the teachers' reports under a local mechanism, for each class of each query.

Each teacher's channel Pr[report | vote] is public, but the accuracy of the votes is unknown. It is assumed that all
teachers have the same accuracy, and that all wrong classes get votes equally often. The accuracy is estimated from the
reports alone by expectation maximisation, as in Dawid & Skene 1979 (*Maximum likelihood estimation of observer
error-rates using the EM algorithm*).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import mechanism_of
from patebench.mechanisms.local_mechanisms import LocalMechanism

#: Initial estimate of a teacher's probability of a correct vote, and the number of EM iterations.
_INITIAL_ACCURACY, _ITERATIONS = 0.9, 10


def report_log_likelihood(reports: NDArray[np.integer], facts: Mapping[str, Any]) -> Array:
    """Return ln Pr[teachers' reports on a query | class of the query] (queries, classes), for a local mechanism.

    Parameters
    ----------
    reports : (teachers, queries) int array; −1 where a teacher did not participate
    facts
        Metadata of the released labels: "mechanism", its "parameters" and the number of "classes".

    Raises
    ------
    PatebenchError
        If the mechanism is not local.
    """
    mechanism = mechanism_of(facts)
    if not isinstance(mechanism, LocalMechanism):
        raise PatebenchError(
            f"{facts['mechanism']} is not a local mechanism, so it releases no reports of teachers; use a local one,"
            " such as randomised-response"
        )
    channels = mechanism.channels(len(reports), int(facts["classes"]))
    return log_likelihood(reports, [channel.matrix for channel in channels])


def log_likelihood(reports: NDArray[np.integer], channels: Sequence[Array]) -> Array:
    """Return ln Pr[all reports on a query | class of the query] (queries, classes).

    `reports` (teachers, queries) are −1 where a teacher did not participate. `channels` contains one matrix Pr[report |
    vote] (classes, possible reports) per teacher. The teachers' accuracy is estimated from `reports`.
    """
    accuracy = _INITIAL_ACCURACY
    for _ in range(_ITERATIONS):
        log_p, expected_correct = _expectation_step(reports, channels, accuracy)
        posterior = np.exp(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))
        correct, participations = np.einsum("qy,qy->", posterior, expected_correct), np.sum(reports >= 0)
        accuracy = float(np.clip(correct / max(participations, 1), 1 / len(channels[0]), 0.999))
    return _expectation_step(reports, channels, accuracy)[0]


def _expectation_step(reports: NDArray[np.integer], channels: Sequence[Array], accuracy: float) -> tuple[Array, Array]:
    """Return ln Pr[reports | class of a query] and the expected number of correct votes, both (queries, classes).

    Column y is computed under the assumption that y is the true class of every query. Each teacher votes for the true
    class with probability `accuracy`, and for each other class with equal probability.
    """
    classes = len(channels[0])
    log_p, expected_correct = np.zeros((2, reports.shape[1], classes))
    for teacher_reports, channel in zip(reports, channels, strict=True):
        wrong_vote = (1 - accuracy) / (classes - 1) * (channel.sum(axis=0) - channel)
        report_probability = accuracy * channel + wrong_vote  # Pr[report | class] (classes, reports)
        queries = np.flatnonzero(teacher_reports >= 0)
        log_p[queries] += np.log(report_probability)[:, teacher_reports[queries]].T
        expected_correct[queries] += (accuracy * channel / report_probability)[:, teacher_reports[queries]].T
    return log_p, expected_correct
