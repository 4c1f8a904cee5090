"""Interactive-GNMax of Scalable PATE (Papernot et al. 2018, section 4.3, Algorithm 2).

It answers queries on which the teachers seem to differ from the student. The student that asks gives its predictions
first. They are public: they follow from earlier answers and public samples.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import exact
from patebench.accounting.votes import Votes, ranks
from patebench.mechanisms.base import NO_ANSWER, Labels, parameter
from patebench.mechanisms.confident_gnmax import ConfidentGNMax

Integers = NDArray[np.integer]


@dataclass(frozen=True)
class InteractiveGNMax(ConfidentGNMax):
    """If max(counts − n·p) + N(0, σ₁²) ≥ threshold then argmax(counts + N(0, σ₂²)), else no answer of the teachers.

    p are the student's predictions; one vote changes the largest difference by at most 1, as it changes the largest
    count in Confident-GNMax. That is what it is without predictions, before there is a student. Where the test fails,
    a student that gives a class more probability than `confidence` keeps that class as its label. This follows from
    public predictions and the outcome of the test, and costs nothing more.
    """

    discrete = False  # the test compares no whole numbers, so discrete noise would not hide them
    example: ClassVar[Mapping[str, float]] = {"threshold": 40.0, "sigma1": 20.0, "sigma2": 10.0, "confidence": 0.9}

    confidence: float = parameter(low=0, high=1)

    def test_statistic(self, votes: Votes) -> NDArray[Any]:
        top: NDArray[Any] = self._differences(votes).max(axis=1)
        return top

    def student_labels(self, votes: Votes) -> Labels:
        if votes.predictions is None:
            return super().student_labels(votes)
        sure = votes.predictions.max(axis=1) > self.confidence
        return np.where(sure, np.argmax(votes.predictions, axis=1), NO_ANSWER).astype(np.int32)

    def changes(self, votes: Votes) -> exact.Neighbours | exact.PerQueryNeighbours:
        return self.neighbours if votes.predictions is None else exact.PerQueryNeighbours(self._per_query)

    def _differences(self, votes: Votes) -> NDArray[Any]:
        return votes.counts if votes.predictions is None else votes.counts - votes.teachers * votes.predictions

    def _per_query(self, votes: Votes) -> Iterator[exact.Pairs]:
        """Neighbours of each query, by class and not by rank: classes with equal counts differ in their predictions."""
        differences = self._differences(votes)
        order = np.argsort(-votes.counts, axis=1, kind="stable")
        ordered = np.take_along_axis(votes.counts, order, axis=1)
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, ranks(ordered), axis=1)
        for alike in self._answer.neighbours(ordered):
            pairs = _by_class(alike, rank)
            yield self._with_test(pairs, differences[pairs.histogram].max(axis=1), _after(differences, pairs))


def _by_class(pairs: exact.Pairs, rank: Integers) -> exact.Pairs:
    """Neighbours by class from neighbours by rank: a row for every pair of classes (`rank`: queries × classes)."""
    may_lose = rank[pairs.histogram] == pairs.loses[:, None]
    may_gain = rank[pairs.histogram] == pairs.gains[:, None]
    other = ~np.eye(rank.shape[1], dtype=bool)
    row, loses, gains = np.nonzero(may_lose[:, :, None] & may_gain[:, None, :] & other)
    order = np.lexsort((loses, pairs.histogram[row]))
    row, loses, gains = row[order], loses[order], gains[order]
    return exact.Pairs(
        pairs.histogram[row], loses, gains, pairs.log_p[row], pairs.log_p_neighbour[row], pairs.multiplicity[row]
    )


def _after(differences: NDArray[Any], pairs: exact.Pairs) -> NDArray[Any]:
    """The largest difference after each change."""
    rows, changed = np.arange(len(pairs.histogram)), differences[pairs.histogram]
    changed[rows, pairs.loses] -= 1
    changed[rows, pairs.gains] += 1
    result: NDArray[Any] = changed.max(axis=1)
    return result
