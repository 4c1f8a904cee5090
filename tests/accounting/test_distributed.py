"""Sums of discrete Gaussians by exact convolution, against the theorem that bounds them."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from patebench.accounting import discrete_gaussian


def summed(share, shares):
    """Return the exact probabilities of the sum of `shares` discrete Gaussians of scale `share`, and its values."""
    x = np.arange(-math.ceil(36 * share), math.ceil(36 * share) + 1)
    one = np.exp(-(x**2) / (2 * share**2))
    one = one[one > 1e-280]
    total = one / one.sum()
    for _ in range(shares - 1):
        total = np.convolve(total, one / one.sum())
        middle = len(total) // 2
        keep = min(middle, math.ceil(36 * share * math.sqrt(shares)))
        total = total[middle - keep : middle + keep + 1]
    return total, np.arange(len(total)) - len(total) // 2


SHARES = [(0.5, 2), (0.5, 10), (0.6, 3), (0.6, 40), (0.8, 20), (1.0, 5), (1.5, 45), (2.5, 100)]


@pytest.mark.parametrize(("share", "shares"), SHARES)
def test_the_sum_is_as_near_to_one_discrete_gaussian_as_the_theorem_says(share, shares):
    found, x = summed(share, shares)
    log_one = -(x**2) / (2 * shares * share**2)
    log_one -= np.logaddexp.reduce(log_one)
    likely = np.abs(x) < 12 * share * math.sqrt(shares)
    apart = np.abs(np.log(found[likely]) - log_one[likely]).max()
    assert apart <= discrete_gaussian.share_difference(share, shares) + 1e-12
    if share <= 0.6:
        assert apart > 1e-4, "the sum is no discrete Gaussian, so there is something to pay for"


@pytest.mark.parametrize(("share", "shares"), SHARES)
def test_revealing_all_counts_costs_at_most_the_curve(share, shares):
    """Two counts shifted by one, all others alike: twice the divergence of one shifted sum."""
    log_p = np.log(summed(share, shares)[0])
    orders = np.array([1.1, 2.0, 6.0, 25.0])
    exact = [2 * np.logaddexp.reduce(a * log_p[1:] + (1 - a) * log_p[:-1]) / (a - 1) for a in orders]
    bound = discrete_gaussian.shared_counts(share * math.sqrt(shares), shares, orders)
    assert np.all(exact <= bound + 1e-12)  # the oracle itself rounds at 1e-13
    if share == 0.5:
        assert np.any(exact > orders / (shares * share**2)), "one discrete Gaussian of that variance costs less"
    if share >= 1.5:
        np.testing.assert_allclose(exact, bound, rtol=1e-4)  # far from ½ there is next to nothing to pay


@pytest.mark.parametrize(("share", "shares"), SHARES)
@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-12])
def test_revealing_all_counts_of_one_query_costs_at_most_epsilon(share, shares, delta):
    """Two counts shifted by one: all pairs of their noise."""
    p, sigma = summed(share, shares)[0], share * math.sqrt(shares)
    losses = np.add.outer(*2 * [np.log(p[1:] / p[:-1])])
    epsilon = discrete_gaussian.shared_counts_epsilon(sigma, shares, 1, delta)
    spent = np.sum(np.outer(p[1:], p[1:]) * np.maximum(-np.expm1(np.minimum(epsilon - losses, 0)), 0))
    assert spent <= delta
    if share >= 1.5:
        assert epsilon == pytest.approx(discrete_gaussian.epsilon(sigma, 2, delta), rel=1e-3)


def test_the_difference_to_forty_digits():
    with mp.workdps(40):
        for share, shares in ((0.5, 3), (1.2, 45), (3.0, 250)):
            terms = (mp.exp(-2 * mp.pi**2 * mpf(share) ** 2 * k / (k + 1)) for k in range(1, shares))
            assert discrete_gaussian.share_difference(share, shares) == pytest.approx(float(10 * sum(terms)), rel=1e-12)


def test_it_fails_closed():
    orders = np.array([2.0, 10.0])
    assert np.all(np.isposinf(discrete_gaussian.shared_counts(0.0, 10, orders)))
    assert np.all(np.isposinf(discrete_gaussian.shared_counts(1.0, 5, orders)))  # shares of scale 0.447
    assert discrete_gaussian.share_difference(3.0, 1) == 0
    np.testing.assert_allclose(discrete_gaussian.shared_counts(40.0, 1, orders), orders / 1600)
