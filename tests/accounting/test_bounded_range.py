"""Bounded range: the closed form of its Rényi curve and its composition, against their definitions."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from patebench.accounting import independent

ORDERS = np.array([1.01, 1.5, 2.0, 4.0, 20.0, 100.0])


def steps(eta, t):
    """Return the probabilities of the privacy losses t and t − η in a worst-case step of range η = `eta`."""
    p = np.expm1(t - eta) / np.expm1(-eta)
    return p, 1 - p


@pytest.mark.parametrize("eta", [1e-3, 0.1, 0.7, 3.0])
def test_the_curve_is_the_largest_of_all_worst_steps(eta):
    t = np.linspace(0, eta, 100_001)[1:-1]
    p, rest = steps(eta, t)
    for order in ORDERS:
        moments = p * np.exp((order - 1) * t) + rest * np.exp((order - 1) * (t - eta))
        expected = np.log(moments.max()) / (order - 1)
        assert independent.bounded_range_rdp(eta, np.array([order]))[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("eta", [1e-8, 1e-4, 0.1, 1.0, 50.0, 800.0])
def test_the_closed_form_to_many_digits_and_never_below(eta):
    with mp.workdps(80):
        for order in (*ORDERS, 1e4):
            a, e = mp.mpf(order), mp.mpf(eta)
            ratio = mp.expm1(a * e) / mp.expm1(e)
            u = (a - 1) * ratio / (a * (ratio - 1))
            expected = mp.log(u ** (a - 1) * ratio / a) / (a - 1)
            got = independent.bounded_range_rdp(eta, np.array([order]))[0]
            assert expected * (1 - mp.mpf("1e-15")) <= got <= expected * (1 + 1e-6)


def delta(eta, kinds, epsilon):
    """Compute δ(ε) of steps with these t by enumeration of their losses."""
    total = 0.0
    for low in itertools.product((False, True), repeat=len(kinds)):
        probability, loss = 1.0, 0.0
        for is_low, t in zip(low, kinds, strict=True):
            probability = probability * steps(eta, t)[is_low]
            loss = loss + t - eta * is_low
        total = total + probability * np.maximum(-np.expm1(epsilon - loss), 0)
    return total


@pytest.mark.parametrize(("queries", "points"), [(1, 2001), (2, 201), (3, 41)])
@pytest.mark.parametrize("eta", [0.5, 1.0, 2.0])
def test_composition_is_the_worst_of_all_kinds_of_steps(queries, points, eta):
    """The steps may differ in t; the theorem says that those that do not are the worst."""
    grid = np.meshgrid(*[np.linspace(0, eta, points)] * queries)
    for target in (0.3, 0.01):
        epsilon = independent.bounded_range_composition(eta, queries, target)
        assert delta(eta, grid, epsilon).max() <= target * (1 + 1e-9)
        if epsilon > 0:
            assert delta(eta, grid, epsilon * 0.99).max() > target * 0.99


def test_composition_by_a_sum_of_many_terms():
    """T = 286, η = 0.1: no kind of step, taken 286 times, exceeds δ, and one reaches it."""
    epsilon, eta, queries = independent.bounded_range_composition(0.1, 286, 1e-5), 0.1, 286
    i = np.arange(queries + 1)
    log_choose = np.array([math.lgamma(queries + 1) - math.lgamma(k + 1) - math.lgamma(queries - k + 1) for k in i])
    worst = 0.0
    for t in np.linspace(0, eta, 2001)[1:-1]:
        p, rest = steps(eta, t)
        mass = np.exp(log_choose + (queries - i) * np.log(p) + i * np.log(rest))
        worst = max(worst, np.sum(mass * np.maximum(-np.expm1(epsilon - queries * t + i * eta), 0)))
    assert 0.999e-5 < worst <= 1e-5 * (1 + 1e-9)


def test_large_and_many():
    assert independent.bounded_range_composition(1e6, 3, 1e-5) <= 3e6
    many = [independent.bounded_range_composition(0.001, T, 1e-5) for T in (4_000, 16_384, 16_385, 1_000_000)]
    assert many == sorted(many)
