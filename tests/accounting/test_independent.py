"""Bounds without a curve: the values of the papers and notes, mpmath, and dp-accounting."""

import math
import time
from itertools import product

import mpmath as mp
import pytest
from dp_accounting import get_epsilon_gaussian
from hypothesis import given
from hypothesis import strategies as st
from tests.accounting.oracles import gaussian_delta

from patebench.accounting import independent
from patebench.accounting.independent import pure_accountants
from patebench.core.bound import Conversion


def test_strong_composition_of_the_paper():
    assert independent.strong_composition(0.05, 100, 1e-5) == pytest.approx(5.7985, abs=5e-5)
    assert int(independent.strong_composition(0.05, 1000, 1e-6)) == 26


def least_epsilons(epsilon: float, queries: int, deltas: tuple[float, ...]) -> list[mp.mpf]:
    """Return the least ε of `queries` queries for each δ, by sums over all losses in 60 digits."""
    with mp.workdps(60):
        falls = mp.exp(-mp.mpf(epsilon))
        p = (1 + falls) ** -queries
        q = p * falls**queries
        likely, rare, best = mp.mpf(0), mp.mpf(0), {mp.mpf(delta): mp.mpf(1) for delta in deltas}
        for i in range(queries + 1):
            likely, rare = likely + p, rare + q
            for delta in (delta for delta in best if delta < likely):
                best[delta] = max(best[delta], (likely - delta) / rare)
            p, q = p * falls * (queries - i) / (i + 1), q / falls * (queries - i) / (i + 1)
        return [mp.log(ratio) for ratio in best.values()]


@pytest.mark.parametrize("epsilon", [1e-6, 0.02, 0.1, 1.0, 30.0, 800.0])
@pytest.mark.parametrize("queries", [1, 10, 1000, 5000])
def test_composition_is_rounded_up_and_hardly(epsilon, queries):
    """Also where grids round or overflow: dp-accounting says 1 % too little at T = 1000, 2γ = 0.02, δ = 1e-14."""
    deltas = (1e-5, 1e-10, 1e-14, 1e-30)
    for delta, wanted in zip(deltas, least_epsilons(epsilon, queries, deltas), strict=True):
        found = independent.pure_composition(epsilon, queries, delta)
        assert wanted * (1 - mp.mpf(10) ** -15) <= found <= queries * epsilon, "the plain sum is rounded"
        assert found <= wanted * (1 + mp.mpf(10) ** -6) + mp.mpf(10) ** -7


def test_ten_million_queries_take_a_moment_and_are_nearly_gaussian():
    """T losses of ±ε tend to √T·ε-GDP."""
    queries, step = 10_000_000, 1e-4
    began = time.process_time()
    found = independent.pure_composition(step, queries, 1e-5)
    assert time.process_time() - began < 5
    assert found == pytest.approx(independent.gaussian_dp(math.sqrt(queries) * step, 1e-5), rel=1e-4)


@pytest.mark.parametrize("mu", [1e-3, 0.05, 0.6, 3.0, 20.0])
@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-10])
def test_gaussian_dp_is_that_of_dp_accounting(mu, delta):
    assert independent.gaussian_dp(mu, delta) == pytest.approx(get_epsilon_gaussian(1 / mu, delta), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("mu", [1e-300, 1.4e-15, 1e-5, 0.4999, 0.5001, 3.0, 1e4, 1e9, 1e15])
@pytest.mark.parametrize("delta", [0.9, 0.5, 1e-5, 1e-30, 1e-300])
def test_gaussian_dp_is_never_below_the_truth_and_hardly_above(mu, delta):
    found = independent.gaussian_dp(mu, delta)
    with mp.workdps(60):
        assert gaussian_delta(mu, found) <= delta
        below = gaussian_delta(mu, found * (1 - mp.mpf(10) ** -10))
        assert found == 0 or below > delta * (1 - mp.mpf(10) ** -11)


@given(st.floats(-20, 10), st.floats(-300, -0.1))
def test_gaussian_dp_is_never_below_the_truth_wherever(log_mu, log_delta):
    test_gaussian_dp_is_never_below_the_truth_and_hardly_above(10**log_mu, 10**log_delta)


@pytest.mark.parametrize("delta", [0.5, 1e-5, 1e-300])
def test_the_ends_of_the_range(delta):
    assert independent.gaussian_dp(0.0, delta) == 0
    assert independent.gaussian_dp(math.inf, delta) == math.inf
    assert independent.cells_mu(0.0, 20) == math.inf
    assert independent.pure_composition(0.0, 10, delta) == 0
    assert independent.pure_composition(math.inf, 10, delta) == math.inf
    assert independent.strong_composition(math.inf, 10, delta) == math.inf
    assert 0 <= independent.pure_composition(1000.0, 100, delta) <= 100_000


def outcomes(epsilon: float, queries: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """Return the probability of every sequence of truths and lies, on either of two neighbours."""
    truth = mp.exp(epsilon) / (1 + mp.exp(epsilon))

    def probability(told: tuple[bool, ...], right: mp.mpf) -> mp.mpf:
        return mp.fprod(right if each else 1 - right for each in told)

    every = product([True, False], repeat=queries)
    return [(probability(told, truth), probability(told, 1 - truth)) for told in every]


@pytest.mark.parametrize("queries", [1, 2, 6])
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
def test_bounds_are_those_of_the_worst_such_queries(epsilon: float, queries: int) -> None:
    delta, pairs = 1e-3, outcomes(epsilon, queries)
    pld, rdp = pure_accountants("a theorem", epsilon)
    (direct,) = pld.bounds([queries], delta)

    def failure(found: float) -> mp.mpf:
        return mp.fsum(max(p - mp.exp(found) * q, 0) for p, q in pairs)

    assert failure(direct.epsilon) <= delta * (1 + 1e-9)
    assert failure(direct.epsilon * (1 - 1e-3)) > delta, "dp-accounting adds less than a thousandth"
    (tight,) = (each for each in rdp.bounds([queries], delta) if each.conversion is Conversion.TIGHT)
    order = mp.mpf(tight.order)
    divergence = mp.log(mp.fsum(p**order * q ** (1 - order) for p, q in pairs)) / (order - 1)
    stated = divergence + mp.log(1 - 1 / order) - (mp.log(delta) + mp.log(order)) / (order - 1)
    assert tight.epsilon == pytest.approx(float(stated), rel=1e-9)
