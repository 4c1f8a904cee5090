"""Confident-GNMax: releases, outcome probabilities, and the validity of its bounds."""

import math

import mpmath as mp
import numpy as np
import pytest

from patebench.accounting import independent, rdp
from patebench.accounting.exact import ExactDivergence
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion, Kind
from patebench.mechanisms.base import NO_ANSWER
from patebench.mechanisms.confident_gnmax import ConfidentGNMax, InteractiveGNMax
from patebench.mechanisms.noisy_argmax import GNMax


def test_thresholds_at_the_ends():
    votes = Votes.of(np.random.default_rng(0).integers(0, 3, size=(9, 200)), 3)
    rng = np.random.default_rng(1)
    assert np.all(ConfidentGNMax(math.inf, 3, 2).release(votes, rng) == NO_ANSWER)
    np.testing.assert_array_equal(ConfidentGNMax(0, 0, 0).release(votes, rng), votes.plurality)
    exactly = ConfidentGNMax(5, 0, 0)
    labels = exactly.release(votes, rng)
    np.testing.assert_array_equal(labels, np.where(votes.counts.max(axis=1) >= 5, votes.plurality, NO_ANSWER))
    assert np.all(exactly.log_outcome_probabilities(votes)[np.arange(200), labels] == 0), "certain, and released"


def test_where_every_query_is_answered_it_is_gnmax():
    votes = Votes.from_counts(np.array([[30, 10, 5]]))
    screened, always = (each.log_outcome_probabilities(votes)[:, :-1] for each in (ConfidentGNMax(0, 1, 8), GNMax(8)))
    np.testing.assert_allclose(screened, always, rtol=1e-14)


def test_the_theorem_is_put_to_use_and_costs_less_where_answers_are_rare():
    orders = np.array([2.0, 8.0])
    top = np.array([250.0, 140.0])
    log_q = rdp.gaussian_log_q(np.array([[250, 0, 0], [140, 110, 0]]), 20.0)
    rows = np.column_stack([top, log_q])
    confident = ConfidentGNMax(200, 30, 20).data_dependent(rows, orders)
    assert np.all(confident[0] < ConfidentGNMax(200, 30, 20).data_independent(orders) / 5)
    answer = rdp.gaussian_data_dependent(log_q, 20.0, orders)[1]
    assert np.all(confident[1] < answer), "a close vote is hardly ever answered"


def test_the_expected_cost_is_no_bound():
    """A close vote that is answered once in a thousand times, with little noise."""
    mechanism, orders = ConfidentGNMax(610, 200, 0.5), np.array([8.0, 20.0])
    votes = Votes.from_counts(np.array([[5, 5]]))
    (bound,) = {each.kind for each in mechanism.accountants(votes) if each.name == "rdp-expected"}
    assert bound is Kind.CLAIMED
    rows = np.column_stack([[5.0], rdp.gaussian_log_q(votes.counts, 0.5)])
    expected = mechanism.expected(rows, orders)[0]
    truth = ExactDivergence(votes, mechanism.neighbours).directions([1], orders)[0, 0, 0]
    assert np.all(expected < truth / 2)


def test_expected_cost_as_the_official_tables_add_it_up():
    counts, orders = np.array([[200, 30, 20], [120, 110, 20]]), np.array([2.0, 8.0, 32.0])
    log_q = rdp.gaussian_log_q(counts, 40.0)
    got = ConfidentGNMax(200, 150, 40).expected(np.column_stack([counts[:, 0], log_q]), orders)
    for top, q, row in zip(counts[:, 0], log_q, got, strict=True):
        answered = 0.5 * math.erfc((200 - top) / 150 / math.sqrt(2))
        test_q = np.log([min(answered, 1 - answered)])
        test = rdp.gaussian_data_dependent(test_q, 150 * math.sqrt(2), orders)[0]
        answer = rdp.gaussian_data_dependent(np.array([q]), 40.0, orders)[0]
        np.testing.assert_allclose(row, test + answered * answer, rtol=1e-12)


def test_worst_case_covers_every_query_asked():
    votes = Votes.from_counts(np.tile([250, 0], (500, 1)))
    bounds = {
        (bound.accountant, bound.conversion): bound
        for bound in ConfidentGNMax(200, 150, 40).bounds(votes, [500], 1e-5)
        if bound.kind is Kind.WORST_CASE
    }
    mu = math.sqrt(500 * (1 / 150**2 + 2 / 40**2))
    assert bounds["gdp", Conversion.NONE].epsilon == pytest.approx(independent.gaussian_dp(mu, 1e-5), rel=1e-12)
    a = np.geomspace(1.001, 100, 100_000)
    curve = 500 * (a / (2 * 150**2) + a / 40**2)
    classic = np.min(curve + math.log(1e5) / (a - 1))
    assert bounds["rdp", Conversion.CLASSIC].epsilon == pytest.approx(classic, rel=1e-6)
    assert all(bound.publishable for bound in bounds.values())


@pytest.mark.slow
@pytest.mark.parametrize("top", [None, 0.0, 0.25, 0.75, 1.0])
@pytest.mark.parametrize("counts", [(0, 250), (9, 31), (125, 125)])
@pytest.mark.parametrize(("threshold", "sigma1", "sigma2"), [(200, 150, 40), (20, 15, 4), (300, 10, 5), (0, 5, 100)])
def test_two_classes_have_closed_forms(counts, top, threshold, sigma1, sigma2):
    """Interactive-GNMax tests what is new to a student who predicts the second class with the probability `top`."""
    votes, teachers = Votes.from_counts(np.array([counts])), sum(counts)
    if top is None:
        mechanism, news = ConfidentGNMax(threshold, sigma1, sigma2), max(counts)
    else:
        mechanism, votes = (
            InteractiveGNMax(threshold, sigma1, sigma2, 0.5),
            votes.with_predictions(np.array([[1 - top, top]])),
        )
        news = max(counts[1] - teachers * top, counts[0] - teachers * (1 - top))
    with mp.workdps(600):
        above, ahead = (mp.mpf(news) - threshold) / sigma1, (counts[1] - counts[0]) / (sigma2 * mp.sqrt(2))
        outcomes = mp.ncdf(above) * mp.ncdf(-ahead), mp.ncdf(above) * mp.ncdf(ahead), mp.ncdf(-above)
        expected = [float(mp.log(p)) for p in outcomes]
    np.testing.assert_allclose(mechanism.log_outcome_probabilities(votes)[0], expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0, 10_000, math.inf])
@pytest.mark.parametrize("sigma1", [1e-9, 150.0, math.inf])
@pytest.mark.parametrize("sigma2", [1e-3, 40.0, math.inf])
def test_extremes(threshold, sigma1, sigma2):
    votes = Votes.of(np.array([[0, 0, 0], [0, 1, 0], [0, 1, 1], [0, 1, 2]]), 3)
    mechanism = ConfidentGNMax(threshold, sigma1, sigma2)
    np.testing.assert_allclose(np.exp(mechanism.log_outcome_probabilities(votes)).sum(axis=1), 1, atol=1e-11)
    bounds = mechanism.bounds(votes, [1, 3], 1e-5)
    find = {(bound.accountant, bound.kind, bound.conversion, bound.queries): bound.epsilon for bound in bounds}
    for (name, kind, conversion, queries), epsilon in find.items():
        assert epsilon >= 0
        if kind is Kind.DATA_DEPENDENT:
            assert epsilon <= find["rdp", Kind.WORST_CASE, conversion, queries] * (1 + 1e-6), name
