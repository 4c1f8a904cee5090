"""The exponential mechanism: softmax to many digits, its range, and what it costs."""

from fractions import Fraction
from itertools import permutations
from math import factorial

import mpmath as mp
import numpy as np
import pytest
from tests.accounting.oracles import p_value

from patebench.accounting import independent
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.mechanisms.exponential import Exponential, PermuteAndFlip


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
    assert p_value(np.bincount(labels, minlength=len(counts)), expected) > 1e-4


def test_its_worst_case_is_that_of_pure_privacy():
    votes = Votes.from_counts(np.tile([30, 10, 5], (100, 1)))
    bounds = PermuteAndFlip(0.1).bounds(votes, [100], 1e-5)
    worst = {bound.accountant: bound.epsilon for bound in bounds if bound.kind is Kind.WORST_CASE}
    assert worst.keys() == {"pld", "rdp"}
    assert worst["pld"] == independent.pure_composition(0.1, 100, 1e-5)
    assert round(worst["pld"], 2) == 4.31, "as for LNMax at γ = 0.05, whose queries are 0.1-DP too"
