"""Interactive-GNMax: releases, outcome probabilities, and cost given the student's predictions."""

import math

import mpmath as mp
import numpy as np
import pytest

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


@pytest.mark.parametrize("top", [0.0, 0.25, 0.75, 1.0])
@pytest.mark.parametrize(("threshold", "sigma1", "sigma2"), [(20, 15, 4), (2, 1, 4), (30, 1, 0.5), (0, 5, 100)])
def test_two_classes_have_closed_forms(top, threshold, sigma1, sigma2):
    got = InteractiveGNMax(threshold, sigma1, sigma2, 0.5).log_outcome_probabilities(asked([[9, 31]], [[1 - top, top]]))
    with mp.workdps(400):
        news = max(31 - 40 * top, 9 - 40 * (1 - top))
        above, ahead = (mp.mpf(news) - threshold) / sigma1, 22 / (sigma2 * mp.sqrt(2))
        outcomes = mp.ncdf(above) * mp.ncdf(-ahead), mp.ncdf(above) * mp.ncdf(ahead), mp.ncdf(-above)
        expected = [float(mp.log(p)) for p in outcomes]
    np.testing.assert_allclose(got[0], expected, rtol=1e-12)


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


def every_change(votes, query, loses, gains):
    counts = votes.counts[query].copy()
    counts[loses] -= 1
    counts[gains] += 1
    return asked([counts], votes.predictions[[query]])


def divergences(mechanism, votes, query, loses, gains):
    """Compute D_α from the outcome probabilities of two data sets, in both directions."""
    own, neighbour = (
        np.exp(mechanism.log_outcome_probabilities(each))[0]
        for each in (votes.at([query]), every_change(votes, query, loses, gains))
    )
    return np.array(
        [
            [np.log(np.sum(p**a * q ** (1 - a))) / (a - 1) for a in ORDERS]
            for p, q in ((own, neighbour), (neighbour, own))
        ]
    )


@pytest.mark.parametrize("mechanism", [InteractiveGNMax(2, 1, 2, 0.5), InteractiveGNMax(1, 0.7, 0.8, 0.5)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_exact_bounds_are_the_brute_force_maximum_over_teachers_and_changes(mechanism, seed):
    votes = drawn_votes(seed=seed)
    classes = range(votes.classes)
    worst = np.array(
        [[np.max([divergences(mechanism, votes, query, loses, gains) for gains in classes if gains != loses], axis=0)
          if votes.counts[query, loses] else np.zeros((2, len(ORDERS))) for loses in classes]
         for query in range(votes.queries)]
    )  # fmt: skip
    got = ExactDivergence(votes, mechanism.changes(votes)).directions([votes.queries], ORDERS)
    np.testing.assert_allclose(got.per_query[0], worst.max(axis=1).sum(axis=0), rtol=1e-8)
    teachers = [sum(worst[query, said] for query, said in enumerate(row)) for row in votes.matrix]
    np.testing.assert_allclose(got.per_teacher[0], np.max(teachers, axis=0), rtol=1e-8)
    assert np.all(got.per_query <= votes.queries * mechanism.data_independent(ORDERS))


@pytest.mark.parametrize("seed", range(3))
def test_the_theorem_is_above_the_truth(seed):
    mechanism, votes = InteractiveGNMax(2, 1, 2, 0.5), drawn_votes(seed=seed)
    theorem = next(each for each in mechanism.accountants(votes) if each.kind is Kind.DATA_DEPENDENT)
    truth = ExactDivergence(votes, mechanism.changes(votes)).directions([5], ORDERS).per_query[0, 0]
    assert np.all(truth <= theorem.totals([5], ORDERS)[0] * (1 + 1e-12))


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
