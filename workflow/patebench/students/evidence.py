"""What local mechanisms let a student know: the likelihood of all that the teachers sent, for each class.

The channels are public, so the likelihood of a teacher's report is exact for each vote. What a vote says of the class
is not: teachers are taken to be right with one probability, else to say any other class, and that probability is
estimated from the reports alone, as Dawid & Skene 1979 estimate the error rates of observers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import make
from patebench.mechanisms.local import LocalMechanism

Array = NDArray[np.float64]

#: The first guess of how often teachers are right, and how often it is improved.
_RIGHT, _ROUNDS = 0.9, 10


def evidence_of(reports: NDArray[np.integer], facts: Mapping[str, Any], samples: int) -> Array:
    """ln Pr[reports | class] (samples, classes) for `samples` of a pool, of which the first were asked.

    `reports` (teachers, queries) are those of a local mechanism, which the `facts` of its labels name.
    """
    mechanism, classes = make(facts["mechanism"], facts["parameters"]), int(facts["classes"])
    if not isinstance(mechanism, LocalMechanism):
        raise PatebenchError(f"{facts['mechanism']} is no local mechanism, so no teacher's report may be read")
    channels = [channel.matrix for channel in mechanism.channels(len(reports), classes)]
    found = np.zeros((samples, classes))
    found[: reports.shape[1]] = likelihood(reports, channels)
    return found


def likelihood(reports: NDArray[np.integer], channels: Sequence[Array]) -> Array:
    """ln Pr[reports of a query | class] (queries, classes).

    `reports` (teachers, queries) are −1 where a teacher did not take part; each channel is Pr[report | vote].
    """
    right = _RIGHT
    for _ in range(_ROUNDS):
        told, share = _told(reports, channels, right)
        posterior = np.exp(told - np.logaddexp.reduce(told, axis=1, keepdims=True))
        asked = np.sum(reports >= 0)
        right = float(np.clip(np.einsum("qy,qy->", posterior, share) / max(asked, 1), 1 / len(channels[0]), 0.999))
    return _told(reports, channels, right)[0]


def _told(reports: NDArray[np.integer], channels: Sequence[Array], right: float) -> tuple[Array, Array]:
    """Log-likelihoods (queries, classes), and how many teachers are expected to be right if that is the class."""
    classes = len(channels[0])
    told, share = np.zeros((2, reports.shape[1], classes))
    for said, channel in zip(reports, channels, strict=True):
        others = (1 - right) / (classes - 1) * (channel.sum(axis=0) - channel)
        both = right * channel + others  # Pr[report | class], classes × reports
        part = np.flatnonzero(said >= 0)
        told[part] += np.log(both)[:, said[part]].T
        share[part] += (right * channel / both)[:, said[part]].T
    return told, share
