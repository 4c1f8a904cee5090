"""Under a local mechanism: the likelihood of all reports that the teachers sent, for each class of each query.

Each teacher's channel Pr[report | vote] is public. How its vote depends on the class is not: a teacher is taken to
vote for the class with one probability, the same for all, and else for any other class alike. That probability is
estimated from the reports alone by expectation maximisation, as Dawid & Skene 1979 (*Maximum likelihood estimation of
observer error-rates using the EM algorithm*) estimate the error rates of observers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import make_mechanism
from patebench.mechanisms.local_mechanisms import LocalMechanism

Array = NDArray[np.float64]

#: The first estimate of a teacher's probability of a right vote, and the number of EM iterations.
_INITIAL_ACCURACY, _ITERATIONS = 0.9, 10


def pool_log_likelihood(reports: NDArray[np.integer], facts: Mapping[str, Any], samples: int) -> Array:
    """Return ln Pr[reports | class] (samples, classes) for a pool of so many samples, the first of which were queried.

    `reports` (teachers, queries) are those of a local mechanism; `facts`, the metadata of its labels, give its name
    under "mechanism", its "parameters" and the number of "classes". Samples that were not queried have 0. Raises
    PatebenchError if the mechanism is not local.
    """
    mechanism, classes = make_mechanism(facts["mechanism"], facts["parameters"]), int(facts["classes"])
    if not isinstance(mechanism, LocalMechanism):
        raise PatebenchError(f"{facts['mechanism']} is no local mechanism, so no teacher's report may be read")
    channels = [channel.matrix for channel in mechanism.channels(len(reports), classes)]
    found = np.zeros((samples, classes))
    found[: reports.shape[1]] = log_likelihood(reports, channels)
    return found


def log_likelihood(reports: NDArray[np.integer], channels: Sequence[Array]) -> Array:
    """Return ln Pr[reports of a query | class] (queries, classes).

    `reports` (teachers, queries) are −1 where a teacher did not take part; `channels` hold Pr[report | vote] (votes,
    reports) of each teacher.
    """
    accuracy = _INITIAL_ACCURACY
    for _ in range(_ITERATIONS):
        found, expected_right = _expectation(reports, channels, accuracy)
        posterior = np.exp(found - np.logaddexp.reduce(found, axis=1, keepdims=True))
        right, participations = np.einsum("qy,qy->", posterior, expected_right), np.sum(reports >= 0)
        accuracy = float(np.clip(right / max(participations, 1), 1 / len(channels[0]), 0.999))
    return _expectation(reports, channels, accuracy)[0]


def _expectation(reports: NDArray[np.integer], channels: Sequence[Array], accuracy: float) -> tuple[Array, Array]:
    """Return, if each class were the true one, ln Pr[reports], and the expected number of right votes, each (queries,
    classes).

    `accuracy` is a teacher's probability of a right vote.
    """
    classes = len(channels[0])
    found, expected_right = np.zeros((2, reports.shape[1], classes))
    for sent, channel in zip(reports, channels, strict=True):
        wrong_vote = (1 - accuracy) / (classes - 1) * (channel.sum(axis=0) - channel)
        given_class = accuracy * channel + wrong_vote  # Pr[report | class] (classes, reports)
        queries = np.flatnonzero(sent >= 0)
        found[queries] += np.log(given_class)[:, sent[queries]].T
        expected_right[queries] += (accuracy * channel / given_class)[:, sent[queries]].T
    return found, expected_right
