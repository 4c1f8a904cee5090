"""Running a mechanism many times on given votes, and what it says of itself that such votes should give."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.accounting.votes import Votes
from patebench.audit.losses import composed
from patebench.audit.search import Pair
from patebench.core.seeds import Source
from patebench.mechanisms.base import Mechanism, checked_probabilities
from patebench.mechanisms.local_mechanisms import LocalMechanism

#: Labels, or "no answer", which is the number of classes.
Outcomes = NDArray[np.int64]

#: Counts of one query, one for each class.
Histogram = NDArray[np.int64]

#: Counts, histograms × classes.
Histograms = NDArray[np.int64]

#: A generator for the stream that is named.
Streams = Callable[[str], np.random.Generator]

#: Labels drawn at once.
BLOCK = 1 << 20


@dataclass(frozen=True)
class Runner:
    """Releases of a mechanism, as outcomes; and their probabilities, as the mechanism states them."""

    mechanism: Mechanism

    def outcomes(self, votes: Votes, source: Source) -> Outcomes:
        """One release, an outcome for each query."""
        return self.mechanism.release(votes, source).astype(np.int64) % (votes.classes + 1)

    def blocks(self, votes: Callable[[int], Votes], source: Source, labels: int) -> Iterator[Outcomes]:
        """Releases of many queries, `labels` together."""
        for start in range(0, labels, BLOCK):
            yield self.outcomes(votes(min(BLOCK, labels - start)), source)

    def transcripts(self, votes: Votes, source: Source, runs: int) -> Outcomes:
        """So many releases of these votes, runs × queries."""
        return np.stack([self.outcomes(votes, source) for _ in range(runs)])

    def stated(self, votes: Votes) -> Array | None:
        """Stated probabilities of the outcomes of each query, queries × (classes + 1); None where there are none.

        Under a local mechanism one teacher is asked, whose label is its perturbed vote; a query that it sits out is
        none of its outcomes.
        """
        if isinstance(self.mechanism, LocalMechanism):
            return self._of_reports(votes) if votes.teachers == 1 else None
        log_p = self.mechanism.log_outcome_probabilities(votes)
        return None if log_p is None else checked_probabilities(self.mechanism, log_p)

    def _of_reports(self, votes: Votes) -> Array:
        table = np.full((votes.classes, votes.classes + 1), 0.0)
        for pairs in self.mechanism.neighbours(np.eye(1, votes.classes, dtype=np.int64)):
            table[pairs.loses, :-1] = np.exp(pairs.log_p)
        return table[votes.plurality]

    def epsilon(self, pair: Pair, queries: int, delta: float) -> float:
        """The ε of so many independent queries to a pair by the stated probabilities of its outcomes."""
        here, there = (self.stated(votes) for votes in pair.votes(1))
        if here is None or there is None:
            return pair.epsilon(queries, delta)
        with np.errstate(divide="ignore"):
            log_p, log_p_neighbour = np.log(here[0]), np.log(there[0])
        return composed(log_p, log_p_neighbour, np.ones(len(log_p), dtype=np.int64), queries, delta)


def in_turn(histograms: Histograms, queries: int) -> Votes:
    """Votes with these counts (histograms × classes) in turn, so many queries."""
    classes = np.arange(histograms.shape[1])
    matrix = np.stack([np.repeat(classes, counts) for counts in histograms], axis=1)
    place = np.arange(queries) % len(histograms)
    return Votes(histograms[place], matrix[:, place])


def counted(outcomes: Outcomes, classes: int) -> NDArray[np.int64]:
    """How often each outcome showed."""
    return np.bincount(outcomes.ravel(), minlength=classes + 1)
