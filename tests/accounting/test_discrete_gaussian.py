"""Discrete Gaussian noise against mpmath, plain convolutions and dp-accounting: never below the truth, hardly above."""

import math
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.accounting.oracles import hockey_stick, renyi, sum_of_gaussians

from patebench.accounting import conversion, discrete_gaussian, independent

DELTAS = [0.9, 0.5, 0.1, 1e-5, 1e-30, 1e-300]


@cache
def exact_law(sigma, cells):
    """Return Pr[Y = y] of the sum of several draws, for y = −reach … reach, to 40 digits."""
    with mp.workdps(40):
        reach = math.ceil(45 * sigma) + 2
        one = [mp.exp(-(mp.mpf(z) ** 2) / (2 * mp.mpf(sigma) ** 2)) for z in range(-reach, reach + 1)]
        total = mp.fsum(one)
        one = [each / total for each in one]
        law = one
        for _ in range(cells - 1):
            longer = [mp.mpf(0)] * (len(law) + len(one) - 1)
            for i, p in enumerate(law):
                for j, q in enumerate(one):
                    longer[i + j] += p * q
            law = longer
        return law


def exact_delta(sigma, cells, epsilon):
    law = exact_law(sigma, cells)
    middle = len(law) // 2
    losses = [(mp.mpf(cells) / 2 + i - middle) / mp.mpf(sigma) ** 2 for i in range(len(law))]
    return mp.fsum(p * (1 - mp.exp(epsilon - loss)) for p, loss in zip(law, losses, strict=True) if loss > epsilon)


@pytest.mark.parametrize(("sigma", "cells"), [(0.06, 2), (0.3, 1), (0.3, 2), (0.5, 6), (1.0, 2), (1.0, 4), (2.5, 2)])
@pytest.mark.parametrize("delta", DELTAS)
def test_never_below_the_truth_and_hardly_above(sigma, cells, delta):
    found = discrete_gaussian.epsilon(sigma, cells, delta)
    with mp.workdps(40):
        assert exact_delta(sigma, cells, mp.mpf(found)) <= delta
        assert found == 0 or exact_delta(sigma, cells, mp.mpf(found) - mp.mpf(10) ** -7 * (1 + found)) > delta


@pytest.mark.parametrize(("sigma", "queries"), [(0.5, 3000), (1.0, 100), (1.9, 400), (2.3, 400), (40.0, 1)])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-100, 1e-280])
def test_many_queries_against_plain_convolutions(sigma, queries, delta):
    law = sum_of_gaussians(sigma, 2 * queries)
    losses = (queries + np.arange(len(law)) - len(law) // 2) / sigma**2
    found = discrete_gaussian.epsilon(sigma, 2 * queries, delta)

    def spent(epsilon):
        above = losses > epsilon
        return np.sum(law[above] * -np.expm1(epsilon - losses[above]))

    assert spent(found) <= delta
    assert found == 0 or spent(found - 1e-7 * (1 + found)) > delta


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "cells", "delta"), [(2, 2, 1e-5), (3, 20, 1e-6), (0.7, 8, 1e-4), (5, 300, 1e-8)])
def test_it_is_that_of_dp_accounting(sigma, cells, delta):
    """Compare with dp-accounting, where one number moves by one per cell, and which rounds losses up."""
    grid = 1e-4
    losses = privacy_loss_distribution.from_discrete_gaussian_mechanism(sigma, value_discretization_interval=grid)
    library = losses.self_compose(cells).get_epsilon_for_delta(delta)
    found = discrete_gaussian.epsilon(sigma, cells, delta)
    assert library - cells * grid <= found <= library * (1 + 1e-6)


@settings(max_examples=60)
@given(st.floats(-3, 12), st.floats(0, 6), st.floats(-300, -0.31))
def test_wherever_it_is_near_that_of_continuous_noise_or_below_the_renyi_bound(log_sigma, log_queries, log_delta):
    """For wide noise, the lattice changes ε by a relative 1/S² at most."""
    sigma, cells, delta = 10**log_sigma, 2 * round(10**log_queries), 10**log_delta
    found = discrete_gaussian.epsilon(sigma, cells, delta)
    mu = math.sqrt(cells) / sigma
    curve = conversion.ORDERS * mu * mu / 2
    renyi = conversion.tight(conversion.ORDERS, curve, delta).min()
    assert 0 <= found <= renyi * (1 + 1e-12)  # the order of operations moves the last digit
    scale = sigma * math.sqrt(cells)
    if sigma >= 1 and scale > 10:
        smooth = independent.gaussian_dp(mu, delta)
        assert found == pytest.approx(smooth, rel=1 / scale**2 + 1e-9, abs=mu / scale)


@pytest.mark.parametrize(("sigma", "cells"), [(5793, 2), (184, 2000), (2.1, 2000), (1.0, 2000)])
@pytest.mark.parametrize("delta", [2e-5, 1e-8, 1e-200])
def test_more_noise_costs_less_also_where_one_way_to_compute_meets_another(sigma, cells, delta):
    near = [discrete_gaussian.epsilon(each, cells, delta) for each in np.linspace(0.998, 1.002, 41) * sigma]
    assert np.all(np.diff(near) < 0)


@pytest.mark.parametrize("delta", DELTAS)
def test_the_ends_of_the_range(delta):
    assert discrete_gaussian.epsilon(0.0, 2, delta) == math.inf
    assert discrete_gaussian.epsilon(1e-200, 2, delta) == math.inf
    assert discrete_gaussian.epsilon(math.inf, 2, delta) == 0
    for sigma in (1e-100, 1e-3, 0.04):  # too little noise to be transformed
        assert discrete_gaussian.epsilon(sigma, 2, delta) >= max(0, 1 / sigma**2 - 38 / sigma)
    assert discrete_gaussian.epsilon(1.0, 10**15, delta) >= 4e14  # too many queries
    assert discrete_gaussian.several([(0.0, 3), (1.0, 6)], delta) == math.inf
    assert discrete_gaussian.several([(1e-200, 3), (1.0, 6)], delta) == math.inf
    assert discrete_gaussian.several([(0.3, 3), (1.0, 6)], delta) >= discrete_gaussian.epsilon(0.3, 3, delta)
    assert discrete_gaussian.several([(math.inf, 3), (math.inf, 6)], delta) == 0
    assert discrete_gaussian.several([(math.inf, 3), (40.0, 6)], delta) >= discrete_gaussian.epsilon(40.0, 6, delta)


@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-100])
def test_two_scales_cost_more_than_the_sums_over_both_lattices(delta):
    """A count with σ = 4 and two with σ = 3, each moved by one, in six queries: all pairs of sums."""
    groups, queries = [(4.0, 6), (3.0, 12)], 6
    one, two = (sum_of_gaussians(sigma, cells) for sigma, cells in groups)
    place = [np.arange(len(law)) - len(law) // 2 for law in (one, two)]
    losses = np.add.outer((queries / 2 + place[0]) / 16, (queries + place[1]) / 9)
    found = discrete_gaussian.several(groups, delta)

    def spent(epsilon):
        return np.sum(np.outer(one, two) * np.maximum(-np.expm1(np.minimum(epsilon - losses, 0)), 0))

    assert spent(found) <= delta < spent(found * 0.97)


SHARES = [(0.5, 2), (0.5, 10), (0.6, 3), (0.6, 40), (0.8, 20), (1.0, 5), (1.5, 45), (2.5, 100)]


@pytest.mark.parametrize(("share", "shares"), SHARES)
def test_nothing_costs_less_than_the_exact_sum_of_shares(share, shares):
    """Two counts shifted by one, all others alike: divergences are twice that of one shifted sum, and losses add up."""
    p, sigma = sum_of_gaussians(share, shares), share * math.sqrt(shares)
    p = p[p > 1e-280]
    log_p, x = np.log(p), np.arange(len(p)) - len(p) // 2
    log_one = -(x**2) / (2 * sigma**2)
    log_one -= np.logaddexp.reduce(log_one)
    likely = np.abs(x) < 12 * sigma
    apart = np.abs(log_p[likely] - log_one[likely]).max()
    assert apart <= discrete_gaussian.share_difference(share, shares) + 1e-12
    if share <= 0.6:
        assert apart > 1e-4, "the sum is no discrete Gaussian, so there is something to pay for"

    orders = np.array([1.1, 2.0, 6.0, 25.0])
    exact = 2 * renyi(log_p[1:], log_p[:-1], orders)
    bound = discrete_gaussian.shared_counts(sigma, shares, orders)
    assert np.all(exact <= bound + 1e-12)  # the oracle itself rounds at 1e-13
    if share == 0.5:
        assert np.any(exact > orders / sigma**2), "one discrete Gaussian of that variance costs less"
    if share >= 1.5:
        np.testing.assert_allclose(exact, bound, rtol=1e-4)  # far from ½ there is next to nothing to pay

    losses = np.add.outer(*2 * [log_p[1:] - log_p[:-1]])
    for delta in (0.1, 1e-5, 1e-12):
        epsilon = discrete_gaussian.shared_counts_epsilon(sigma, shares, 1, delta)
        spent = np.sum(np.outer(p[1:], p[1:]) * np.maximum(-np.expm1(np.minimum(epsilon - losses, 0)), 0))
        assert spent <= delta
        if share >= 1.5:
            assert epsilon == pytest.approx(discrete_gaussian.epsilon(sigma, 2, delta), rel=1e-3)


@pytest.mark.parametrize("delta", [0.1, 1e-5])
@pytest.mark.parametrize(
    ("share", "shares", "moved"),
    [(0.5, 3, (1, 1)), (0.6, 40, (2,)), (1.5, 4, (3, 1)), (12.0, 3, (9,)), (12.0, 3, (5, 3))],
)
def test_a_table_costs_no_less_than_its_changed_cells_and_little_more_if_noise_is_wide(share, shares, moved, delta):
    noise, sigma = sum_of_gaussians(share, shares), share * math.sqrt(shares)
    noise = noise[noise > 1e-30]
    p, q = np.ones(1), np.ones(1)
    for size in moved:
        p = np.multiply.outer(p, np.pad(noise, (0, size))).ravel()
        q = np.multiply.outer(q, np.pad(noise, (size, 0))).ravel()
    epsilon = discrete_gaussian.shared_table_epsilon(sigma, shares, math.hypot(*moved) ** 2, len(moved), delta)
    assert hockey_stick(p, q, epsilon) <= delta
    assert share < 10 or hockey_stick(p, q, epsilon * 0.95) > delta


def test_the_difference_to_forty_digits():
    with mp.workdps(40):
        for share, shares in ((0.5, 3), (1.2, 45), (3.0, 250)):
            terms = (mp.exp(-2 * mp.pi**2 * mp.mpf(share) ** 2 * k / (k + 1)) for k in range(1, shares))
            assert discrete_gaussian.share_difference(share, shares) == pytest.approx(float(10 * sum(terms)), rel=1e-12)


def test_it_fails_closed():
    orders = np.array([2.0, 10.0])
    assert np.all(np.isposinf(discrete_gaussian.shared_counts(0.0, 10, orders)))
    assert np.all(np.isposinf(discrete_gaussian.shared_counts(1.0, 5, orders)))  # shares of scale 0.447
    assert discrete_gaussian.shared_table_epsilon(0.0, 10, 4, 4, 1e-5) == math.inf
    assert discrete_gaussian.shared_table_epsilon(1.0, 5, 4, 4, 1e-5) == math.inf
    assert 0 <= discrete_gaussian.shared_table_epsilon(1e200, 5, 4, 4, 1e-5) < 1e-9
    assert discrete_gaussian.share_difference(3.0, 1) == 0
    np.testing.assert_allclose(discrete_gaussian.shared_counts(40.0, 1, orders), orders / 1600)
