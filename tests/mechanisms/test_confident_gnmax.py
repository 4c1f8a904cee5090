"""Confident-GNMax: releases, outcome probabilities, and the validity of its bounds."""

import math

import mpmath as mp
import numpy as np
import pytest
from tests.mechanisms.test_soundness import ensembles, neighbours

from patebench.accounting import independent, rdp
from patebench.accounting.exact import ExactDivergence
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion, Kind
from patebench.mechanisms.base import NO_ANSWER
from patebench.mechanisms.confident_gnmax import ConfidentGNMax
from patebench.mechanisms.noisy_argmax import GNMax

ORDERS = np.array([1.05, 2.0, 4.0, 9.0, 20.0])


@pytest.mark.parametrize(("top", "other"), [(250, 0), (130, 120), (125, 125), (200, 50)])
@pytest.mark.parametrize(("threshold", "sigma1", "sigma2"), [(200, 150, 40), (200, 10, 40), (300, 10, 5), (0, 5, 100)])
def test_two_classes_have_closed_forms(top, other, threshold, sigma1, sigma2):
    votes = Votes.from_counts(np.array([[other, top]]))
    got = ConfidentGNMax(threshold, sigma1, sigma2).log_outcome_probabilities(votes)[0]
    with mp.workdps(400):
        above, ahead = mp.mpf(top - threshold) / sigma1, (top - other) / (sigma2 * mp.sqrt(2))
        outcomes = mp.ncdf(above) * mp.ncdf(-ahead), mp.ncdf(above) * mp.ncdf(ahead), mp.ncdf(-above)
        expected = [float(mp.log(p)) for p in outcomes]
    np.testing.assert_allclose(got, expected, rtol=1e-12)


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
    votes, orders = Votes.from_counts(np.array([[30, 10, 5]])), np.array([1.05, 2.0, 9.0])
    screened = ConfidentGNMax(0, 1, 8)
    expected = GNMax(8).log_outcome_probabilities(votes)[:, :-1]
    np.testing.assert_allclose(screened.log_outcome_probabilities(votes)[:, :-1], expected, rtol=1e-14)
    alone, always = (
        ExactDivergence(votes, each.neighbours).directions([1], orders).per_query for each in (GNMax(8), screened)
    )
    np.testing.assert_allclose(always, alone, rtol=1e-9)


@pytest.mark.parametrize("mechanism", [ConfidentGNMax(3, 1, 2), ConfidentGNMax(2, 0.7, 0.8)], ids=str)
@pytest.mark.parametrize(("teachers", "classes"), [(1, 2), (4, 2), (5, 3), (4, 4)])
def test_bounds_hold_for_every_small_ensemble(mechanism, teachers, classes):
    """The exact accountant is the brute-force maximum; the theorems are above it, the expected cost is not always."""
    for counts in ensembles(teachers, classes):
        votes = Votes.from_counts(np.array([counts]))
        own = np.exp(mechanism.log_outcome_probabilities(votes))
        others = Votes.from_counts(neighbours(counts))
        neighbour = np.exp(mechanism.log_outcome_probabilities(others))
        forward, back = (
            np.array([np.log(np.sum(p**a * q ** (1 - a), axis=1)).max() / (a - 1) for a in ORDERS])
            for p, q in ((own, neighbour), (neighbour, own))
        )
        got = ExactDivergence(votes, mechanism.neighbours).directions([1], ORDERS).per_query[0]
        np.testing.assert_allclose(got, [forward, back], rtol=1e-8)
        worst = mechanism.data_independent(ORDERS)
        assert np.all(got <= worst * (1 + 1e-12))
        rows = np.column_stack([[max(counts)], rdp.gaussian_log_q(votes.counts, mechanism.sigma2)])
        assert np.all(forward <= mechanism.data_dependent(rows, ORDERS)[0] * (1 + 1e-12))


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
    truth = ExactDivergence(votes, mechanism.neighbours).directions([1], orders).per_query[0, 0]
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
@pytest.mark.parametrize("threshold", [0, 100, 10_000, 1e9, math.inf])
@pytest.mark.parametrize("sigma1", [1e-9, 1.0, 150.0, 1e9, math.inf])
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
