"""Interactive-GNMax: releases, outcome probabilities, and cost given the student's predictions."""

import math
from itertools import permutations

import numpy as np
import pytest
from tests.accounting.oracles import renyi

from patebench.accounting.exact import ExactDivergence
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import NO_ANSWER
from patebench.mechanisms.confident_gnmax import ConfidentGNMax, InteractiveGNMax
from patebench.mechanisms.noisy_argmax import GNMax

ORDERS = np.array([1.05, 2.0, 4.0, 9.0, 20.0])


def asked(counts, predictions):
    return Votes.from_counts(np.array(counts)).with_predictions(np.array(predictions))


def drawn_votes(teachers=7, queries=5, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    votes = Votes.of(rng.integers(0, classes, size=(teachers, queries)), classes)
    return votes.with_predictions(rng.dirichlet(np.ones(classes), size=queries))


def test_a_student_that_agrees_is_not_answered_and_one_that_errs_is():
    mechanism = InteractiveGNMax(100, 20, 20, 0.9)
    votes = asked([[250, 0, 0], [250, 0, 0]], [[1, 0, 0], [0, 1, 0]])
    answered = -np.expm1(mechanism.log_outcome_probabilities(votes)[:, -1])
    assert answered[0] < 1e-5
    assert answered[1] > 1 - 1e-5


def test_a_confident_student_keeps_its_label():
    mechanism = InteractiveGNMax(math.inf, 1, 1, 0.6)
    votes = asked([[3, 1]] * 4, [[0.7, 0.3], [0.6, 0.4], [0.5, 0.5], [0.1, 0.9]])
    np.testing.assert_array_equal(mechanism.release(votes, np.random.default_rng(0)), [NO_ANSWER] * 4)
    np.testing.assert_array_equal(mechanism.student_labels(votes), [0, NO_ANSWER, NO_ANSWER, 1])
    np.testing.assert_array_equal(mechanism.student_labels(votes.with_predictions(None)), [NO_ANSWER] * 4)
    np.testing.assert_array_equal(ConfidentGNMax(0, 1, 1).student_labels(votes), [NO_ANSWER] * 4)


@pytest.mark.parametrize("predictions", [None, np.zeros((5, 3))], ids=["no student", "zeros"])
def test_without_predictions_it_is_confident_gnmax(predictions):
    votes = drawn_votes().with_predictions(predictions)
    interactive, confident = InteractiveGNMax(3, 1, 2, 0.5), ConfidentGNMax(3, 1, 2)
    log_p = [each.log_outcome_probabilities(votes) for each in (interactive, confident)]
    np.testing.assert_allclose(*log_p, rtol=1e-13)
    ours, theirs = ({(b.accountant, b.kind, b.conversion): b.epsilon for b in each.bounds(votes, [5], 1e-5)}
                    for each in (interactive, confident))  # fmt: skip
    assert ours.keys() == theirs.keys()
    for name, epsilon in ours.items():
        assert epsilon == pytest.approx(theirs[name], rel=1e-9), name


@pytest.mark.parametrize("mechanism", [InteractiveGNMax(2, 1, 2, 0.5), InteractiveGNMax(1, 0.7, 0.8, 0.5)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_exact_bounds_are_the_brute_force_maximum_over_teachers_and_changes(mechanism, seed):
    votes = drawn_votes(seed=seed)
    worst = np.zeros((votes.queries, votes.classes, 2, len(ORDERS)))  # by the class that loses a vote
    for query, (counts, predicted) in enumerate(zip(votes.counts, votes.predictions, strict=True)):
        for loses, gains in permutations(range(votes.classes), 2):
            if counts[loses]:
                change = np.eye(votes.classes, dtype=int)[gains] - np.eye(votes.classes, dtype=int)[loses]
                rows = mechanism.log_outcome_probabilities(asked([counts, counts + change], [predicted] * 2))
                found = [renyi(rows[0], rows[1], ORDERS), renyi(rows[1], rows[0], ORDERS)]
                worst[query, loses] = np.maximum(worst[query, loses], found)
    divergence = ExactDivergence(votes, mechanism.changes(votes))
    per_query, per_teacher = divergence.directions([votes.queries], ORDERS)
    np.testing.assert_allclose(per_query[0], worst.max(axis=1).sum(axis=0), rtol=1e-8)
    teachers = [sum(worst[query, said] for query, said in enumerate(row)) for row in votes.matrix]
    np.testing.assert_allclose(per_teacher[0], np.max(teachers, axis=0), rtol=1e-8)
    assert np.all(per_query <= votes.queries * mechanism.data_independent(ORDERS))
    theorem = next(each for each in mechanism.accountants(votes) if each.kind is Kind.DATA_DEPENDENT)
    assert np.all(per_query[0, 0] <= theorem.totals([5], ORDERS)[0] * (1 + 1e-12))


def test_a_close_vote_that_the_student_expects_costs_less():
    counts = np.tile([130, 115, 5], (50, 1))
    votes = asked(counts, np.tile([0.52, 0.46, 0.02], (50, 1)))
    expects, unasked, always = (
        min(bound.epsilon for bound in mechanism.bounds(votes, [50], 1e-5) if bound.accountant == "exact")
        for mechanism in (InteractiveGNMax(100, 60, 20, 0.9), ConfidentGNMax(100, 60, 20), GNMax(20))
    )
    assert expects < 0.6 * unasked
    assert expects < 0.6 * always


@pytest.mark.parametrize("bad", [[[0.5, 0.5]], [[0.5, math.nan, 0.5]], [[1.5, -0.5, 0.0]]], ids=str)
def test_what_are_no_predictions_is_refused(bad):
    with pytest.raises(PatebenchError, match="predictions"):
        Votes.from_counts(np.array([[1, 2, 3]])).with_predictions(np.array(bad))
