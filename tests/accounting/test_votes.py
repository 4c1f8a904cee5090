"""Counts from votes, and refused input."""

import numpy as np
import pytest

from patebench.accounting import votes
from patebench.accounting.votes import Votes, counts
from patebench.core.errors import PatebenchError


def test_votes_know_their_sizes_and_plurality():
    votes = Votes.of(np.array([[0, 2], [0, 2], [1, 0]]), classes=4)
    assert (votes.teachers, votes.queries, votes.classes) == (3, 2, 4)
    np.testing.assert_array_equal(votes.plurality, [0, 2])


@pytest.mark.parametrize("ballots", [1, 40, 1 << 20])
def test_counts_do_not_depend_on_the_blocks_that_are_counted_at_a_time(ballots, monkeypatch):
    monkeypatch.setattr(votes, "_BALLOTS", ballots)
    matrix = np.random.default_rng(0).integers(0, 5, (20, 33)).astype(np.uint8)
    found = counts(matrix, 5)
    assert found.tolist() == [[int(np.sum(column == label)) for label in range(5)] for column in matrix.T]
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    ("matrix", "classes", "fault"),
    [
        (np.array([[0, 3]]), 3, "labels from 0 to 2"),
        (np.array([[-1, 0]]), 3, "run from -1"),
        (np.array([0, 1]), 3, "teachers × queries"),
        (np.array([[0.0, 1.0]]), 3, "integers"),
        (np.zeros((0, 3), dtype=int), 3, "teachers × queries"),
        (np.array([[0, 0]]), 1, "at least two classes"),
    ],
)
def test_bad_votes_are_refused_in_one_line(matrix, classes, fault):
    with pytest.raises(PatebenchError, match=fault):
        counts(matrix, classes)


@pytest.mark.parametrize(
    "table",
    [np.array([[3, 1], [2, 1]]), np.array([[3, -1]]), np.array([[4]]), np.array([1, 2]), np.array([[0.5, 0.5]])],
)
def test_bad_counts_are_refused(table):
    with pytest.raises(PatebenchError):
        Votes.from_counts(table)
