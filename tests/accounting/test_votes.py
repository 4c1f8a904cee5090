"""Counts from votes, and refused input."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tests.refusals import refuses

from patebench.accounting.votes import ABSTAINED, Votes, WeightedVotes, capped, counts
from patebench.core.errors import PatebenchError
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import check_abstentions, make_mechanism


@pytest.mark.parametrize(
    ("matrix", "classes", "fault"),
    [
        (np.array([[0, 3]]), 3, "instead of from 0 to 2"),
        (np.array([[-1, 0]]), 3, "run from -1"),
        (np.array([0, 1]), 3, r"shape \(teachers, queries\)"),
        (np.array([[0.0, 1.0]]), 3, "integers"),
        (np.zeros((0, 3), dtype=int), 3, r"shape \(teachers, queries\)"),
        (np.array([[0, 0]]), 1, "at least two classes"),
        (np.array([[-2, 0]]), 3, "−1 to abstain"),
    ],
)
def test_bad_votes_are_refused_in_one_line(matrix, classes, fault):
    with pytest.raises(PatebenchError, match=fault):
        counts(matrix, classes, abstentions="abstain" in fault)


@pytest.mark.parametrize(
    "table",
    [np.array([[3, 1], [2, 1]]), np.array([[3, -1]]), np.array([[4]]), np.array([1, 2]), np.array([[0.5, 0.5]])],
)
def test_bad_counts_are_refused(table):
    with pytest.raises(PatebenchError):
        Votes.from_counts(table)


RAGGED = np.array([[0, -1, 2, -1], [-1, -1, 2, 1], [-1, -1, -1, -1]], np.int8)


def test_silence_counts_for_no_class_and_teachers_are_all_there_are():
    votes = Votes.of(RAGGED, 3, abstentions=True)
    assert votes.counts.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 2], [0, 1, 0]]
    assert (votes.teachers, votes.at(slice(1, 2)).teachers) == (3, 3)
    assert votes.abstentions
    assert votes.at(slice(1, 2)).abstentions


@pytest.mark.parametrize("ballots", [1, 7, 1 << 20])
@pytest.mark.parametrize(("least", "kind"), [(-1, np.int8), (0, np.uint8)])
def test_counts_are_plain_counts_with_and_without_silence_whatever_the_blocks(ballots, least, kind, monkeypatch):
    monkeypatch.setattr("patebench.accounting.votes._BALLOTS", ballots)
    matrix = np.random.default_rng(0).integers(least, 4, (30, 50)).astype(kind)
    found = counts(matrix, 4, abstentions=least < 0)
    assert found.tolist() == [[int(np.sum(column == label)) for label in range(4)] for column in matrix.T]
    assert found.dtype == np.int64


@pytest.mark.parametrize("largest", [1, 127, 128, 129, 32767, 32768, 32769])
@pytest.mark.parametrize("sign", [1, -1])
def test_stored_weights_are_those_given_whatever_the_largest_weight(largest, sign):
    """Planted fault: −128 fits into 8 bits, but 128 does not, so one teacher's weight would change others."""
    weights = sign * np.array([[largest, 5], [1, -largest + 1]])
    stored = WeightedVotes.of(weights, np.array([0, 1]), np.array([0, 1]), classes=2).arrays()["weights"]
    assert np.array_equal(stored, weights)


@pytest.mark.parametrize("kind", [np.uint8, np.uint64, np.int64])
def test_weights_of_the_same_teacher_and_label_are_added_up_whatever_the_type_of_the_labels(kind):
    labels, teachers = np.array([1, 1, 0], kind), np.array([0, 0, 1], kind)
    votes = WeightedVotes.of(np.array([[1, 2], [3, 4], [5, 6]]), labels, teachers, classes=2)
    tables = [table.tolist() for table in votes.teacher_tables(np.array([0, 1]), 2)]
    assert tables == [[[0, 4], [0, 6]], [[5, 0], [6, 0]]]


def test_rounds_must_add_up_to_the_queries():
    """Queries after the last round would not be capped."""
    votes = Votes.of(np.zeros((3, 4), dtype=np.int8), 2)
    for rounds in ((1,), (2, 3)):
        with refuses("rounds"):
            replace(votes, rounds=rounds)
    assert replace(votes, rounds=(1, 3)).queries == 4


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("rounds", [(), (2, 2), (1, 3)])
def test_the_cap_leaves_the_first_votes_of_each_round_of_every_row(most, rounds):
    rows = np.array(list(itertools.product([-1, 0, 1], repeat=4)), np.int8)
    for teacher, (row, kept) in enumerate(zip(rows, capped(rows, most, rounds), strict=True)):
        expected, place = [], 0
        for size in rounds or (4,):
            here = row[place : place + size].tolist()
            turn = [(teacher + step) % size for step in range(size)]
            given = [i for i in turn if here[i] != ABSTAINED][:most]
            expected += [vote if i in given else ABSTAINED for i, vote in enumerate(here)]
            place += size
        assert kept.tolist() == expected


def test_the_cap_is_a_function_of_each_row_and_its_place_whatever_the_blocks(monkeypatch):
    rng = np.random.default_rng(1)
    rows = rng.integers(-1, 3, (40, 9)).astype(np.int8)
    whole = capped(rows, 2)
    for teacher in range(40):
        others = rng.integers(-1, 3, (40, 9)).astype(np.int8)
        others[teacher] = rows[teacher]
        assert np.array_equal(capped(others, 2)[teacher], whole[teacher])
    monkeypatch.setattr("patebench.accounting.votes._BALLOTS", 20)
    assert np.array_equal(capped(rows, 2), whole)
    everywhere = capped(rows.astype(np.uint8) % 3, 2) != ABSTAINED
    assert (everywhere.sum(axis=1) == 2).all()
    assert set(everywhere.sum(axis=0)) <= {8, 9, 10}  # 80 votes, two for each of 40 teachers, over nine queries


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_states_nothing_of_silence_unless_it_is_proven_for_it(name):
    mechanism = make_mechanism(name, MECHANISMS.load(name).example)
    votes = Votes.of(np.where(np.arange(50)[:, None] < 5, -1, 0) * np.ones((1, 4), np.int8), 3, abstentions=True)
    if mechanism.abstentions:
        assert mechanism.bounds(votes, [4], 1e-5)
        return
    for refuse in (lambda: mechanism.bounds(votes, [4], 1e-5), lambda: check_abstentions(mechanism, votes)):
        with pytest.raises(PatebenchError, match="assumes that teachers vote on every query"):
            refuse()
