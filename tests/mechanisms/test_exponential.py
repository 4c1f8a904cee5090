"""The exponential mechanism: softmax to many digits, its range, and what it costs."""

import mpmath as mp
import numpy as np
import pytest
from tests.mechanisms.test_soundness import ensembles, neighbours

from patebench.accounting import independent
from patebench.accounting.exact import ExactDivergence
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.mechanisms.exponential import Exponential

ORDERS = np.array([1.05, 2.0, 4.0, 9.0, 20.0])
SMALL = [(1, 2), (7, 2), (30, 2), (5, 3), (12, 3), (6, 5)]


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 2 / 3, 8.0])
@pytest.mark.parametrize("counts", [[250, 0, 0, 0], [130, 120, 0], [3, 10, 7, 10], [0, 5], [600, 1, 0, 0, 0]], ids=str)
def test_probabilities_to_many_digits(epsilon, counts):
    got = Exponential(epsilon).log_outcome_probabilities(Votes.from_counts(np.array([counts])))[0]
    assert got[-1] == -np.inf
    with mp.workdps(2000):
        weights = [mp.exp(mp.mpf(epsilon) * count / 2) for count in counts]
        for mine, weight in zip(got, weights, strict=False):
            expected = mp.log(weight / mp.fsum(weights))
            assert abs(mine / expected - 1) < 2e-14 or abs(mine - expected) < 1e-300


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_range_of_the_loss_is_epsilon_and_so_is_its_largest_size(epsilon):
    mechanism, largest = Exponential(epsilon), 0.0
    for teachers, classes in SMALL:
        for counts in ensembles(teachers, classes):
            log_p = mechanism.log_outcome_probabilities(Votes.from_counts(np.array([counts])))[:, :-1]
            loss = log_p - mechanism.log_outcome_probabilities(Votes.from_counts(neighbours(counts)))[:, :-1]
            np.testing.assert_allclose(np.ptp(loss, axis=1), epsilon, rtol=1e-9)
            largest = max(largest, np.abs(loss).max())
    assert 0.9 * epsilon < largest <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize(("teachers", "classes"), SMALL)
def test_no_small_ensemble_costs_more_than_the_curve_of_its_range(epsilon, teachers, classes):
    mechanism, curve = Exponential(epsilon), independent.bounded_range_rdp(epsilon, ORDERS)
    for counts in ensembles(teachers, classes):
        votes = Votes.from_counts(np.array([counts]))
        log_p = mechanism.log_outcome_probabilities(votes)[:, :-1]
        log_p_neighbour = mechanism.log_outcome_probabilities(Votes.from_counts(neighbours(counts)))[:, :-1]
        brute = [
            [np.log(np.sum(np.exp(a * p - (a - 1) * q), axis=1)).max() / (a - 1) for a in ORDERS]
            for p, q in ((log_p, log_p_neighbour), (log_p_neighbour, log_p))
        ]
        got = ExactDivergence(votes, mechanism.neighbours).directions([1], ORDERS).per_query[0]
        np.testing.assert_allclose(got, brute, rtol=1e-8, atol=1e-13)
        assert np.all(got <= curve * (1 + 1e-9))


def test_bounds_and_their_kinds():
    votes = Votes.of(np.random.default_rng(0).integers(0, 3, size=(20, 50)), 3)
    bounds = Exponential(0.4).bounds(votes, [10, 50], 1e-5)
    find = {(bound.accountant, bound.conversion.value, bound.queries): bound for bound in bounds}
    best = find["bounded-range", "none", 50]
    assert best.kind is Kind.WORST_CASE
    assert best.publishable
    assert best.epsilon == independent.bounded_range_composition(0.4, 50, 1e-5)
    assert find["exact-per-teacher", "tight", 50].epsilon <= find["exact", "tight", 50].epsilon
    assert find["exact", "tight", 50].epsilon <= find["rdp", "tight", 50].epsilon * (1 + 1e-6)
    assert best.epsilon < find["rdp", "tight", 50].epsilon < find["rdp", "classic", 50].epsilon
