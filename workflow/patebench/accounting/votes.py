"""Votes of an ensemble, and the counts that mechanisms and accountants use.

Votes may have weights: each private record adds one weight per query to the count of its own label. The squared norm of
a teacher's votes is limited, so that the table of counts changes by a limited distance if the teacher is replaced
(`accounting/sparse.py`). Weights are integers in units of 1/UNIT, so that discrete noise protects the weights exactly
and sums do not depend on the order of the terms.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from patebench.core.blocks import blocks
from patebench.core.checks import MOST_CLASSES, check_array, check_truth, check_whole
from patebench.core.errors import PatebenchError
from patebench.core.text import plural

Counts = NDArray[np.int64]

#: Entry of a vote matrix where the teacher abstains on the query.
ABSTAINED = -1

#: Exclusive upper limit of a count, so that no sum over the classes overflows.
MOST_VOTES = 1 << 40

_BALLOTS = 1 << 20  # teachers × queries per block

#: Number of units of weight in one vote.
UNIT = 1 << 12

#: Relative margin by which scaled weights stay below their limit, larger than any rounding error.
_MARGIN = 1e-9

#: Largest allowed squared norm of a teacher's votes, in squared units: floating point is exact up to this value.
_LARGEST_SQUARE = 1 << 53

#: Largest absolute weight, in units, that `WeightedVotes.limited` returns.
LARGEST_WEIGHT = math.isqrt(_LARGEST_SQUARE)


@dataclass(frozen=True, eq=False)
class WeightedVotes:
    """Weighted votes of an ensemble. Create with `WeightedVotes.of`, which checks its input.

    Parameters
    ----------
    weights : (rows, queries) int array
        Weights in units of 1/UNIT; they may be negative. A teacher has at most one row per label.
    labels, teachers : (rows,) int arrays
        Label and teacher of each row.
    """

    weights: NDArray[np.integer]
    labels: NDArray[np.integer]
    teachers: NDArray[np.integer]

    @classmethod
    def of(
        cls, weights: NDArray[np.integer], labels: NDArray[np.integer], teachers: NDArray[np.integer], classes: int
    ) -> Self:
        """Create weighted votes from the three arrays; rows of the same teacher and label are added up."""
        if weights.ndim != 2 or weights.dtype.kind != "i":
            raise PatebenchError(
                f"the weights have shape {weights.shape} and dtype {weights.dtype}; give an array of integers of shape"
                " (rows, queries)"
            )
        for name, array in (("label", labels), ("teacher", teachers)):
            if array.shape != (len(weights),):
                raise PatebenchError(
                    f"the array of {name}s has shape {array.shape}, but there are {len(weights)} rows of weights; give"
                    f" one {name} for each row"
                )
        if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
            raise PatebenchError(
                f"the labels of weighted votes run from {labels.min()} to {labels.max()}, outside 0 … {classes - 1};"
                " correct the labels"
            )
        labels, teachers = labels.astype(np.int64), teachers.astype(np.int64)
        key = teachers * classes + labels
        distinct, row = np.unique(key, return_inverse=True)
        if len(distinct) == len(key):
            return cls(weights, labels, teachers)
        sums = np.zeros((len(distinct), weights.shape[1]), dtype=np.int64)
        np.add.at(sums, row, weights)
        return cls(sums, distinct % classes, distinct // classes)

    def limited(self, most: float) -> Self:
        """Return the votes with each teacher's weights scaled down to a squared L2 norm of at most `most`.

        The norm is over all rows and queries of the teacher; a single vote of weight 1 has norm 1.
        """
        limit = min(int(most) * UNIT**2, _LARGEST_SQUARE)
        teachers, row = np.unique(self.teachers, return_inverse=True)
        squares = np.bincount(row, np.square(self.weights, dtype=np.float64).sum(axis=1), len(teachers))
        if not (squares > limit).any():
            return self
        factor = np.where(squares > limit, np.sqrt(limit / np.maximum(squares, 1)) * (1 - _MARGIN), 1.0)[row]
        return replace(self, weights=np.trunc(self.weights * factor[:, None]).astype(self.weights.dtype))

    def table(self, classes: int) -> NDArray[np.int64]:
        """Return the sum of all weights by query and class, (queries, classes), in units of 1/UNIT."""
        columns = [self.weights[self.labels == label].sum(axis=0, dtype=np.int64) for label in range(classes)]
        return np.stack(columns, axis=1)

    def teacher_tables(self, teachers: NDArray[np.integer], classes: int) -> Iterator[NDArray[np.int64]]:
        """Yield the table of each of `teachers`: its own weights by query and class, (queries, classes).

        The table of a teacher without a row is 0.
        """
        order = np.argsort(self.teachers, kind="stable")
        starts, ends = (np.searchsorted(self.teachers, teachers, side, sorter=order) for side in ("left", "right"))
        for start, end in zip(starts, ends, strict=True):
            table = np.zeros((self.weights.shape[1], classes), dtype=np.int64)
            for row in order[start:end]:
                table[:, self.labels[row]] += self.weights[row]
            yield table

    def at(self, queries: slice | NDArray[np.integer]) -> Self:
        """Return the votes on `queries`, in the order of `queries`, which are a slice or indices."""
        return replace(self, weights=self.weights[:, queries])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of weights, labels and teachers as a dictionary, with the names used in files of votes."""
        # −largest − 1, since a type such as int8 holds −128, but not 128.
        largest = max(int(self.weights.max(initial=0)), -int(self.weights.min(initial=0)))
        weights = self.weights.astype(np.min_scalar_type(-largest - 1))
        return {"weights": weights, "row_labels": self.labels, "row_teachers": self.teachers}


def quantised(vectors: NDArray[np.floating]) -> NDArray[np.int16]:
    """Return `vectors`, of L2 norm at most 1, as integers in units of 1/UNIT, rounded so that no norm grows."""
    return np.trunc(np.asarray(vectors, dtype=np.float64) * UNIT).astype(np.int16)


@dataclass(frozen=True, eq=False)
class Votes:
    """Votes of an ensemble on a set of queries. Create with `Votes.of` or `Votes.from_counts`, which check their input.

    Parameters
    ----------
    counts : (queries, classes) int array
    matrix : (teachers, queries) int array
        None if only counts are available. Local mechanisms and accountants per teacher need the matrix.
    predictions : (queries, classes) float array
        Class probabilities that the student predicts, which are public; None if there is no student yet.
    electorate
        Number of teachers, if teachers may abstain. Neighbours may then also differ in the queries on which a teacher
        abstains. None: every teacher votes on every query. The rule that teachers may abstain is public.
    rounds
        Numbers of queries of successive rounds of release; empty: all queries are one release.
    weighted
        Votes with weights; `counts` are then sums of weights in units of 1/`unit`. None: each vote has weight 1.
    labels_only
        True if each teacher has a single record whose features are public. Neighbours then differ only in the label of
        one record.
    """

    counts: Counts
    matrix: NDArray[np.integer] | None = None
    predictions: NDArray[np.float64] | None = None
    electorate: int | None = None
    rounds: tuple[int, ...] = ()
    weighted: WeightedVotes | None = None
    labels_only: bool = False

    def __post_init__(self) -> None:
        if self.rounds and sum(self.rounds) != len(self.counts):
            raise PatebenchError(
                f"'rounds' has {plural(sum(self.rounds), 'query')} in total, but the votes are on"
                f" {plural(len(self.counts), 'query')}; give the number of queries of each round",
                code="rounds",
            )

    @classmethod
    def of(cls, matrix: NDArray[np.integer], classes: int, *, abstentions: bool = False) -> "Votes":
        """Create votes from a (teachers, queries) matrix of labels 0 … `classes` − 1.

        If `abstentions` is True, teachers may abstain, and `matrix` may contain the entry `ABSTAINED`.
        """
        matrix, abstentions = check_array("votes", matrix), check_truth("abstentions", abstentions)
        tally = counts(matrix, classes, abstentions=abstentions)
        return cls(tally, _signed(matrix), electorate=len(matrix) if abstentions else None)

    @classmethod
    def from_weights(cls, weighted: WeightedVotes, teachers: int, classes: int) -> "Votes":
        """Create votes from weighted votes of `teachers` teachers; a teacher without a row abstains on all queries."""
        numbers = weighted.teachers
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < teachers:
            raise PatebenchError(
                f"the teachers of the weighted votes are numbered from {numbers.min()} to {numbers.max()}, but there"
                f" are {plural(teachers, 'teacher')}; use numbers from 0 to {teachers - 1}"
            )
        return cls(weighted.table(classes), electorate=teachers, weighted=weighted)

    @classmethod
    def from_counts(cls, counts: NDArray[np.integer]) -> "Votes":
        """Create votes from (queries, classes) counts, whose rows all sum to the number of teachers."""
        counts = check_array("counts", counts)
        if counts.ndim != 2 or counts.dtype.kind not in "iu":
            raise PatebenchError(
                f"counts have shape {counts.shape} and dtype {counts.dtype}; give an array of integers of shape"
                " (queries, classes)"
            )
        if counts.shape[0] < 1 or counts.shape[1] < 2:
            raise PatebenchError(
                f"counts have shape {counts.shape}; give an array of shape (queries, classes) with at least one query"
                " and two classes"
            )
        if counts.max() >= MOST_VOTES:
            raise PatebenchError(f"the largest count is {counts.max()}; give counts below {MOST_VOTES}")
        totals, advice = counts.sum(axis=1), "count one vote of each teacher per query"
        if (negative := (counts < 0).any(axis=1)).any():
            raise PatebenchError(f"a count of query {np.argmax(negative)} (counted from 0) is negative; {advice}")
        if (totals < 1).any():
            raise PatebenchError(f"query {np.argmax(totals < 1)} (counted from 0) has no votes; {advice}")
        if (other := totals != totals[0]).any():
            raise PatebenchError(
                f"queries 0 and {np.argmax(other)} (counted from 0) have different numbers of votes; {advice}"
            )
        return cls(np.asarray(counts, dtype=np.int64))

    def at(self, queries: slice | NDArray[np.integer]) -> "Votes":
        """Return the votes on `queries` as one round, in the order of `queries`, which are a slice or indices."""
        matrix = None if self.matrix is None else self.matrix[:, queries]
        predictions = None if self.predictions is None else self.predictions[queries]
        weighted = None if self.weighted is None else self.weighted.at(queries)
        return replace(
            self, counts=self.counts[queries], matrix=matrix, predictions=predictions, rounds=(), weighted=weighted
        )

    def first(self, queries: int) -> "Votes":
        """Return the votes on the first `queries` queries.

        Raise PatebenchError if the votes have rounds and `queries` is not the number of all queries, since the labels
        of all rounds are published together.
        """
        if queries == self.queries:
            return self
        if self.rounds:
            raise PatebenchError(
                f"ε is requested for {plural(queries, 'query')}, but the labels of all {self.queries} queries in all"
                " rounds are published together; leave the number of queries out"
            )
        return self.at(slice(queries))

    def with_predictions(self, predictions: NDArray[Any] | None) -> "Votes":
        """Return the votes with the student's class probabilities (queries × classes) set; None removes them."""
        if predictions is None:
            return replace(self, predictions=None)
        chances: NDArray[np.float64] = check_array("predictions", predictions).astype(np.float64)
        if chances.shape != self.counts.shape:
            raise PatebenchError(
                f"predictions have shape {chances.shape} instead of (queries, classes) = {self.counts.shape}; give one"
                " probability per query and class"
            )
        if not np.all((chances >= 0) & (chances <= 1)):  # also false for NaN
            raise PatebenchError("predictions contain NaN or values outside 0 … 1; give probabilities")
        return replace(self, predictions=chances)

    @property
    def queries(self) -> int:
        return len(self.counts)

    @property
    def classes(self) -> int:
        return int(self.counts.shape[1])

    @cached_property
    def teachers(self) -> int:
        return int(self.counts[0].sum()) if self.electorate is None else self.electorate

    @property
    def unit(self) -> int:
        """Return how much one vote of weight 1 adds to `counts`: `UNIT` if votes have weights, otherwise 1."""
        return 1 if self.weighted is None else UNIT

    @property
    def abstentions(self) -> bool:
        """Return True if teachers may abstain on a query."""
        return self.electorate is not None

    @cached_property
    def plurality(self) -> NDArray[np.int32]:
        """Return the class with the most votes per query (queries,), the lowest one in a tie."""
        return winners(self.counts)


def check_table(votes: Votes, teachers: int | None, option: str) -> None:
    """Raise PatebenchError if a table given by a user may have a wrong number of teachers, and so a wrong ε.

    If `teachers` is stated, the number of teachers in the table must be equal. Otherwise, the table must not look
    transposed, and must not seem to contain a column of totals.

    Parameters
    ----------
    votes : the table as read
    teachers : number of teachers stated by the user; None: not stated
    option : option that sets `teachers`, such as "--teachers ", for the error message
    """
    if teachers is not None:
        if teachers != votes.teachers:
            raise PatebenchError(
                f"the stated number of teachers is {teachers}, but the table has votes of"
                f" {plural(votes.teachers, 'teacher')} on {plural(votes.queries, 'query')}; correct the number, or save"
                " votes as (teachers, queries) and counts as (queries, classes)"
            )
    elif votes.matrix is not None and votes.teachers > votes.queries:
        raise PatebenchError(
            f"the table has {votes.teachers:,} rows (teachers), but only {plural(votes.queries, 'column')} (queries);"
            f" transpose the table or, if each row is a teacher, confirm this with {option}{votes.teachers}"
        )
    elif votes.matrix is None and votes.classes > 2:
        totals = np.flatnonzero((2 * votes.counts == votes.teachers).all(axis=0))
        what = "is the sum of the other columns"
        if not totals.size:  # a column of totals next to other constant columns, such as the number of teachers
            constant = (votes.counts == votes.counts[0]).all(axis=0)
            varying = votes.counts[:, ~constant].sum(axis=1)
            totals = np.flatnonzero(constant & (votes.counts[0] >= varying.max(initial=1)))
            totals = totals if votes.queries > 1 and not constant.all() else totals[:0]
            what = "may contain totals of the other columns"
        if totals.size:
            raise PatebenchError(
                f"column {totals[0]} of the vote counts (the first is column 0) {what}; remove it or, if it contains"
                f" the counts of a class, give {option}{votes.teachers}"
            )


def counts(votes: NDArray[np.integer], classes: int, *, abstentions: bool = False) -> Counts:
    """Count the votes per query and class.

    Parameters
    ----------
    votes : (teachers, queries) int array
        Labels 0 … classes − 1; with `abstentions` also `ABSTAINED`, which counts for no class.

    Returns
    -------
    (queries, classes) int array
    """
    votes = check_array("votes", votes)
    classes = check_whole("classes", classes, most=MOST_CLASSES)
    if votes.ndim != 2 or votes.dtype.kind not in "iu" or votes.size == 0:
        raise PatebenchError(
            f"votes have shape {votes.shape} and dtype {votes.dtype}; give an array of integers of shape"
            " (teachers, queries) with at least one teacher and one query"
        )
    if classes < 2:
        raise PatebenchError(f"classes = {classes} is too small; votes need at least two classes")
    if votes.min() < (ABSTAINED if abstentions else 0) or votes.max() >= classes:
        silence = " (or −1 to abstain)" if abstentions else ""
        raise PatebenchError(
            f"the votes run from {votes.min()} to {votes.max()} instead of from 0 to {classes - 1}{silence}; correct"
            " the votes or the number of classes"
        )
    votes = _signed(votes)
    teachers, queries = votes.shape
    result = np.empty((queries, classes), dtype=np.int64)
    for block in blocks(queries, _BALLOTS // max(teachers, classes)):
        part = votes[:, block]
        first = np.arange(part.shape[1], dtype=np.int64) * (classes + 1)  # the column of abstentions of each query
        tally = np.bincount((part + (first + 1)).ravel(), minlength=part.shape[1] * (classes + 1))
        result[block] = tally.reshape(-1, classes + 1)[:, 1:]
    return result


def _signed(votes: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return `votes` with a signed type instead of uint64, whose sums with signed integers would be floats."""
    return votes.astype(np.int64) if votes.dtype == np.uint64 else votes


def winners(scores: NDArray[np.number]) -> NDArray[np.int32]:
    """Return the class with the largest score of each query; in a tie, the lowest class.

    `scores` is (queries, classes), and the result is (queries,).
    """
    return np.asarray(np.argmax(scores, axis=1), dtype=np.int32)


def gaps(counts: NDArray[np.number]) -> NDArray[Any]:
    """Return the difference of the two largest counts of each query, from `counts` (queries, classes)."""
    top = np.partition(counts, -2, axis=1)
    return top[:, -1] - top[:, -2]


def capped(
    votes: NDArray[np.integer],
    most: int,
    rounds: Sequence[int] = (),
    places: NDArray[np.integer] | None = None,
) -> NDArray[np.integer]:
    """Return `votes` with only the first `most` votes of each teacher per round; all other entries are abstentions.

    The order of a teacher's votes depends on the teacher's index i: in a round of T queries, it begins at query i mod T
    and continues with the first query after the last one. So about equally many votes are kept on every query.
    Abstentions do not count towards `most`.

    The votes that are kept of a teacher do not depend on other teachers, so neighbours still differ in one row.

    Parameters
    ----------
    votes : (teachers, queries) int array
    rounds
        Numbers of queries of each round; empty: one round.
    places : (teachers,) int array
        Index i of the teacher of each row, if `votes` contains only some teachers. None: the row number.
    """
    places = np.arange(len(votes)) if places is None else np.asarray(places, dtype=np.int64)
    result = np.array(votes, dtype=np.result_type(votes.dtype, np.int8))
    stops = np.cumsum(rounds or (votes.shape[1],))
    for rows in blocks(len(result), _BALLOTS // max(1, votes.shape[1])):
        part = result[rows]
        for low, high in pairwise([0, *stops.tolist()]):
            turn = (places[rows, None] + np.arange(high - low)) % (high - low) + low
            here = np.take_along_axis(part, turn, axis=1)
            here[np.cumsum(here != ABSTAINED, axis=1) > most] = ABSTAINED
            np.put_along_axis(part, turn, here, axis=1)
    return result


def ranks(ordered: NDArray[np.number]) -> NDArray[np.int64]:
    """Return the rank of each class (0: most votes) in rows of descending counts; equal counts share a rank."""
    result = np.zeros(ordered.shape, dtype=np.int64)
    result[:, 1:] = np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1)
    return result


def sort_with_ranks(counts: Counts) -> tuple[Counts, NDArray[np.int64]]:
    """Return two arrays (queries, classes): the counts with each row in descending order, and the ranks of the classes.

    The columns of the ranks are the classes in their original order. Rank 0 has the most votes; equal counts share a
    rank.
    """
    order = np.argsort(-counts, axis=1, kind="stable")
    ordered = np.take_along_axis(counts, order, axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, ranks(ordered), axis=1)
    return ordered, rank


def multiplicities(rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many classes share each rank: (rows, ranks) int array, from the ranks `rank` (rows, classes).

    Classes with equal counts share a rank. All rows must have the same number of distinct ranks.
    """
    rows, distinct = len(rank), int(rank[0, -1]) + 1
    cells = np.arange(rows)[:, None] * distinct + rank
    return np.bincount(cells.ravel(), minlength=rows * distinct).reshape(rows, distinct)
