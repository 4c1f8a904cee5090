"""Permute-and-flip: its closed form against the procedure itself, and the theorems that bound it."""

from fractions import Fraction
from itertools import permutations
from math import factorial

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import chisquare
from tests.mechanisms.test_soundness import ensembles, neighbours

from patebench.accounting import independent, rdp
from patebench.accounting.exact import ExactDivergence
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.mechanisms.exponential import PermuteAndFlip

ORDERS = np.array([1.05, 2.0, 4.0, 9.0, 20.0])
SMALL = [(1, 2), (7, 2), (30, 2), (5, 3), (12, 3), (6, 5)]


def procedure(weights):
    """Compute P(j) of "in random order, accept class j with probability w_j, until one is" exactly."""
    total = [Fraction(0)] * len(weights)
    for order in permutations(range(len(weights))):
        left = Fraction(1, factorial(len(weights)))
        for each in order:
            total[each] += left * weights[each]
            left *= 1 - weights[each]
    return total


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 2 / 3, 8.0])
@pytest.mark.parametrize("counts", [[250, 0, 0, 0], [130, 120, 0], [3, 10, 7, 10, 2], [0, 5], [99, 99, 99]], ids=str)
def test_probabilities_are_those_of_the_procedure(epsilon, counts):
    got = PermuteAndFlip(epsilon).log_outcome_probabilities(Votes.from_counts(np.array([counts])))[0]
    assert got[-1] == -np.inf
    with mp.workdps(1200):
        exact = [mp.exp(mp.mpf(epsilon) * (count - max(counts)) / 2) for count in counts]
        weights = [Fraction(int(mp.floor(weight * 2**3900)), 2**3900) for weight in exact]
        for mine, probability in zip(got, procedure(weights), strict=False):
            expected = mp.log(mp.mpf(probability.numerator) / probability.denominator)
            assert abs(mine - expected) <= 2e-14 * abs(expected) + 1e-300


@pytest.mark.parametrize("counts", [[12, 10, 5, 3], [5, 5], [20, 18, 18, 0, 4]], ids=str)
def test_the_noisy_plurality_with_exponential_noise_is_the_same(counts):
    mechanism, draws = PermuteAndFlip(0.3), 100_000
    labels = mechanism.release(Votes(np.repeat([counts], draws, axis=0)), np.random.default_rng(1))
    expected = draws * np.exp(mechanism.log_outcome_probabilities(Votes.from_counts(np.array([counts])))[0, :-1])
    assert chisquare(np.bincount(labels, minlength=len(counts)), expected).pvalue > 1e-4


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_it_is_private_at_epsilon_and_its_range_is_wider(epsilon):
    mechanism, largest, widest, cost = PermuteAndFlip(epsilon), 0.0, 0.0, np.zeros(len(ORDERS))
    for teachers, classes in SMALL:
        for counts in ensembles(teachers, classes):
            votes = Votes.from_counts(np.array([counts]))
            log_p = mechanism.log_outcome_probabilities(votes)[:, :-1]
            log_p_neighbour = mechanism.log_outcome_probabilities(Votes.from_counts(neighbours(counts)))[:, :-1]
            largest, widest = (
                max(largest, np.abs(log_p - log_p_neighbour).max()),
                max(widest, np.ptp(log_p - log_p_neighbour, axis=1).max()),
            )
            brute = [
                [np.log(np.sum(np.exp(a * p - (a - 1) * q), axis=1)).max() / (a - 1) for a in ORDERS]
                for p, q in ((log_p, log_p_neighbour), (log_p_neighbour, log_p))
            ]
            got = ExactDivergence(votes, mechanism.neighbours).directions([1], ORDERS).per_query[0]
            np.testing.assert_allclose(got, brute, rtol=1e-8, atol=1e-13)
            cost = np.maximum(cost, got.max(axis=0))
    assert largest == pytest.approx(epsilon, rel=1e-9)
    assert np.all(cost <= rdp.pure(epsilon, ORDERS) * (1 + 1e-9))
    assert widest > 1.3 * epsilon
    assert np.all(cost > independent.bounded_range_rdp(epsilon, ORDERS)), (
        "the theorems of bounded range would be wrong here"
    )


def test_its_worst_case_is_that_of_pure_privacy():
    votes = Votes.from_counts(np.tile([30, 10, 5], (100, 1)))
    bounds = PermuteAndFlip(0.1).bounds(votes, [100], 1e-5)
    worst = {bound.accountant: bound.epsilon for bound in bounds if bound.kind is Kind.WORST_CASE}
    assert worst.keys() == {"pld", "rdp"}
    assert worst["pld"] == independent.pure_composition(0.1, 100, 1e-5)
    assert round(worst["pld"], 2) == 4.31, "as for LNMax at γ = 0.05, whose queries are 0.1-DP too"
