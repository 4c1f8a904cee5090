"""The noisy argmax by brute force over all neighbours: exact divergences stay below every theorem that bounds them."""

from itertools import permutations

import numpy as np
import pytest

from patebench.accounting import rdp
from patebench.accounting.logspace import logsumexp
from patebench.accounting.votes import Votes
from patebench.mechanisms.noisy_argmax import GNMax, LNMax

ORDERS = np.array([1.05, 2.0, 4.0, 9.0, 20.0])


def ensembles(teachers, classes):
    """Return all histograms of that many votes, up to the order of the classes."""
    if classes == 1:
        return [[teachers]]
    found = []
    for first in range(teachers, -1, -1):
        found += [[first, *rest] for rest in ensembles(teachers - first, classes - 1) if not rest or rest[0] <= first]
    return found


def neighbours(counts):
    """Return every histogram after one teacher changed its vote."""
    changed = []
    for loses, gains in permutations(range(len(counts)), 2):
        if counts[loses] > 0:
            other = list(counts)
            other[loses], other[gains] = other[loses] - 1, other[gains] + 1
            changed.append(other)
    return np.array(changed)


def worst_divergence(mechanism, counts):
    """Return the maximum over neighbours D′ of D_α(M(D) ‖ M(D′)), per order."""
    log_p = mechanism.log_outcome_probabilities(Votes.from_counts(np.array([counts])))[:, :-1]
    log_p_neighbour = mechanism.log_outcome_probabilities(Votes.from_counts(neighbours(counts)))[:, :-1]
    divergences = [
        np.log(np.sum(np.exp(order * log_p - (order - 1) * log_p_neighbour), axis=1)).max() / (order - 1)
        for order in ORDERS
    ]
    return np.array(divergences)


def theorem(mechanism, counts):
    table = np.array([counts])
    if isinstance(mechanism, LNMax):
        log_q = rdp.laplace_log_q(table, mechanism.gamma)
        curve = rdp.laplace_data_dependent(log_q, mechanism.gamma, ORDERS)[0]
        return log_q[0], curve, rdp.laplace(mechanism.gamma, ORDERS)
    log_q = rdp.gaussian_log_q(table, mechanism.sigma)
    curve = rdp.gaussian_data_dependent(log_q, mechanism.sigma, ORDERS)[0]
    return log_q[0], curve, rdp.gaussian(mechanism.sigma, ORDERS)


@pytest.mark.parametrize(("teachers", "classes"), [(1, 2), (7, 2), (30, 2), (5, 3), (12, 3), (6, 5)])
@pytest.mark.parametrize("mechanism", [LNMax(0.2), LNMax(1.0), GNMax(1.5), GNMax(3.0), GNMax(8.0)], ids=str)
def test_theorems_hold_for_every_small_ensemble(mechanism, teachers, classes):
    for counts in ensembles(teachers, classes):
        log_q, curve, independent = theorem(mechanism, counts)
        exact = worst_divergence(mechanism, counts)
        wrong = logsumexp(mechanism.log_outcome_probabilities(Votes.from_counts(np.array([counts])))[0, 1:])
        assert wrong <= log_q + 1e-11
        assert np.all(exact <= curve * (1 + 1e-9) + 1e-12)
        assert np.all(exact <= independent * (1 + 1e-9))


@pytest.mark.parametrize("mechanism", [LNMax(0.2), LNMax(1.0), GNMax(3.0), GNMax(8.0)], ids=str)
def test_the_data_dependent_theorems_were_put_to_use(mechanism):
    _, curve, independent = theorem(mechanism, [60, 0, 0])
    assert curve[1] < independent[1] / 2


@pytest.mark.parametrize("gamma", [0.05, 0.7])
def test_lnmax_is_2_gamma_dp(gamma):
    for counts in ensembles(9, 3):
        log_p = LNMax(gamma).log_outcome_probabilities(Votes.from_counts(np.array([counts])))[:, :-1]
        log_p_neighbour = LNMax(gamma).log_outcome_probabilities(Votes.from_counts(neighbours(counts)))[:, :-1]
        assert np.abs(log_p - log_p_neighbour).max() <= 2 * gamma + 1e-12


@pytest.mark.parametrize("mechanism", [LNMax(np.inf), GNMax(0.0)], ids=str)
def test_without_noise_the_plurality_is_released(mechanism):
    votes = Votes.of(np.random.default_rng(0).integers(0, 3, size=(9, 400)), classes=3)
    np.testing.assert_array_equal(mechanism.release(votes, np.random.default_rng(1)), votes.plurality)
    assert all(np.isposinf(bound.epsilon) for bound in mechanism.bounds(votes, [1, 400], 1e-5))
