"""The votes of an ensemble, and the counts that every mechanism and most accountants need."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError

Counts = NDArray[np.int64]

_BALLOTS = 1 << 20  # of one block of teachers × queries


@dataclass(frozen=True, eq=False)
class Votes:
    """The votes on each query: counts (queries × classes), and the vote of each teacher where that is known.

    `matrix` (teachers × queries) is None when only counts are at hand; local mechanisms and accountants per teacher
    need it. `predictions` (queries × classes) are public: the probability that the student gives to each class of each
    query; None before there is a student. `Votes.of` and `Votes.from_counts` make one and check their input.
    """

    counts: Counts
    matrix: NDArray[np.integer] | None = None
    predictions: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, matrix: NDArray[np.integer], classes: int) -> "Votes":
        """From a vote matrix, teachers × queries, of labels 0 … classes − 1."""
        return cls(counts(matrix, classes), matrix)

    @classmethod
    def from_counts(cls, counts: NDArray[np.integer]) -> "Votes":
        """From counts, queries × classes, every row summing to the same number of teachers."""
        counts = np.asarray(counts)
        if counts.ndim != 2 or counts.dtype.kind not in "iu":
            raise PatebenchError(
                f"counts have shape {counts.shape} and dtype {counts.dtype}; integers, queries × classes, are needed"
            )
        if counts.shape[0] < 1 or counts.shape[1] < 2:
            raise PatebenchError(f"counts have shape {counts.shape}; at least one query and two classes are needed")
        totals = counts.sum(axis=1)
        if counts.min() < 0 or totals.min() < 1 or totals.min() != totals.max():
            raise PatebenchError("counts must be non-negative and sum to the same number of teachers in every query")
        return cls(np.asarray(counts, dtype=np.int64))

    def at(self, queries: slice | NDArray[np.integer]) -> "Votes":
        """The votes on some of the queries, in that order."""
        matrix = None if self.matrix is None else self.matrix[:, queries]
        return Votes(self.counts[queries], matrix, None if self.predictions is None else self.predictions[queries])

    def with_predictions(self, predictions: NDArray[Any] | None) -> "Votes":
        """The same votes with the predictions of the student (queries × classes), each row a distribution."""
        if predictions is None:
            return replace(self, predictions=None)
        chances: NDArray[np.float64] = predictions.astype(np.float64)
        if chances.shape != self.counts.shape:
            raise PatebenchError(
                f"predictions have shape {chances.shape}, and the votes need {self.counts.shape}: queries × classes"
            )
        if not np.all((chances >= 0) & (chances <= 1)):  # also false for NaN
            raise PatebenchError("predictions must be probabilities, from 0 to 1")
        return replace(self, predictions=chances)

    @property
    def queries(self) -> int:
        return len(self.counts)

    @property
    def classes(self) -> int:
        return int(self.counts.shape[1])

    @cached_property
    def teachers(self) -> int:
        return int(self.counts[0].sum())

    @cached_property
    def plurality(self) -> NDArray[np.int32]:
        """The class with most votes per query, the lowest of tied ones."""
        return np.asarray(np.argmax(self.counts, axis=1), dtype=np.int32)


def counts(votes: NDArray[np.integer], classes: int) -> Counts:
    """Counts (queries × classes) of a vote matrix (teachers × queries) of labels 0 … classes − 1."""
    votes = np.asarray(votes)
    if votes.ndim != 2 or votes.dtype.kind not in "iu" or votes.size == 0:
        raise PatebenchError(
            f"votes have shape {votes.shape} and dtype {votes.dtype}; integers, teachers × queries, are needed"
        )
    if classes < 2:
        raise PatebenchError(f"votes among {classes} classes decide nothing; at least two classes are needed")
    if votes.min() < 0 or votes.max() >= classes:
        raise PatebenchError(
            f"votes run from {votes.min()} to {votes.max()}, and labels from 0 to {classes - 1} are allowed"
        )
    teachers, queries = votes.shape
    result = np.empty((queries, classes), dtype=np.int64)
    block = max(1, _BALLOTS // max(teachers, classes))
    for start in range(0, queries, block):
        part = votes[:, start : start + block]
        cells = part + np.arange(part.shape[1], dtype=np.int64) * classes
        result[start : start + block] = np.bincount(cells.ravel(), minlength=part.shape[1] * classes).reshape(
            -1, classes
        )
    return result


def ranks(ordered: NDArray[np.number]) -> NDArray[np.int64]:
    """The rank of each class in rows of counts in descending order: equal counts share one, and none is left out."""
    result = np.zeros(ordered.shape, dtype=np.int64)
    result[:, 1:] = np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1)
    return result


def multiplicities(rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many classes have each rank, in rows with equally many ranks (see `ranks`)."""
    rows, distinct = len(rank), int(rank[0, -1]) + 1
    cells = np.arange(rows)[:, None] * distinct + rank
    return np.bincount(cells.ravel(), minlength=rows * distinct).reshape(rows, distinct)
