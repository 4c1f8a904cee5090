"""Interactive-GNMax of Scalable PATE (Papernot et al. 2018, section 4.3, Algorithm 2): it teaches what is news.

The student that asks says first what it thinks. That is public: it follows from earlier answers and public samples.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

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
    count in Confident-GNMax. That is what it is without predictions, before there is a student. Where the test finds no
    news, a student that is surer than `confidence` of a class keeps it as its label: that follows from public
    predictions and the outcome of the test, and costs nothing more.
    """

    discrete = False  # the test compares no whole numbers, so discrete noise would not hide them

    confidence: float = parameter(low=0, high=1)

    def evidence(self, votes: Votes) -> NDArray[Any]:
        top: NDArray[Any] = self._differences(votes).max(axis=1)
        return top

    def own_labels(self, votes: Votes) -> Labels:
        if votes.predictions is None:
            return super().own_labels(votes)
        sure = votes.predictions.max(axis=1) > self.confidence
        return np.where(sure, np.argmax(votes.predictions, axis=1), NO_ANSWER).astype(np.int32)

    def changes(self, votes: Votes) -> exact.Neighbours | exact.Apart:
        return self.neighbours if votes.predictions is None else exact.Apart(self._apart)

    def _differences(self, votes: Votes) -> NDArray[Any]:
        return votes.counts if votes.predictions is None else votes.counts - votes.teachers * votes.predictions

    def _apart(self, votes: Votes) -> Iterator[exact.Pairs]:
        """Neighbours of queries; classes with equal counts differ in what the student thinks of them."""
        differences = self._differences(votes)
        order = np.argsort(-votes.counts, axis=1, kind="stable")
        ordered = np.take_along_axis(votes.counts, order, axis=1)
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, ranks(ordered), axis=1)
        for alike in self._answer.neighbours(ordered):
            pairs = _told_apart(alike, rank)
            evidence = _after(differences, pairs)
            yield self._screened(pairs, differences[pairs.histogram].max(axis=1), evidence)


def _told_apart(pairs: exact.Pairs, rank: Integers) -> exact.Pairs:
    """A row for every pair of classes where there was one for their ranks (`rank`: queries × classes)."""
    loses = rank[pairs.histogram] == pairs.down[:, None]
    gains = rank[pairs.histogram] == pairs.up[:, None]
    other = ~np.eye(rank.shape[1], dtype=bool)
    row, down, up = np.nonzero(loses[:, :, None] & gains[:, None, :] & other)
    order = np.lexsort((down, pairs.histogram[row]))
    row, down, up = row[order], down[order], up[order]
    here, there, multiplicity = pairs.here[row], pairs.there[row], pairs.multiplicity[row]
    return replace(
        pairs, histogram=pairs.histogram[row], down=down, up=up, here=here, there=there, multiplicity=multiplicity
    )


def _after(differences: NDArray[Any], pairs: exact.Pairs) -> NDArray[Any]:
    """The largest difference after each change."""
    rows, changed = np.arange(len(pairs.histogram)), differences[pairs.histogram]
    changed[rows, pairs.down] -= 1
    changed[rows, pairs.up] += 1
    result: NDArray[Any] = changed.max(axis=1)
    return result
