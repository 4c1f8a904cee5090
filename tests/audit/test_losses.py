"""Losses of two distributions: against closed forms, brute force and dp-accounting, and never above the truth."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.stats import binom, norm

from patebench.accounting import independent
from patebench.audit.estimates import compose, compose_event, least_epsilon, measurable_epsilon

DELTA = 1e-5


def rows(*pairs):
    """Return ln P, ln Q and multiplicities of one row from pairs of probabilities."""
    with np.errstate(divide="ignore"):
        p, q = np.log(np.array(pairs, dtype=float)).T
    return p, q, np.ones(len(p), dtype=np.int64)


def response(epsilon):
    yes = 1 / (1 + math.exp(-epsilon))
    return rows((yes, 1 - yes), (1 - yes, yes))


def brute(p, q, epsilon):
    """Compute δ(ε) by its definition, over all events."""
    events = itertools.product([0, 1], repeat=len(p))
    return max(sum(e * (a - math.exp(epsilon) * b) for e, a, b in zip(event, p, q, strict=True)) for event in events)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.2])
def test_least_epsilon_inverts_the_divergence_and_rounds_down(seed, delta):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(5) / 2, size=2)
    found = least_epsilon(np.log(p)[None], np.log(q)[None], np.ones((1, 5), dtype=int), delta)[0]
    assert brute(p, q, found + 1e-9) <= delta
    assert found == 0 or brute(p, q, found) >= delta


def test_a_column_may_stand_for_several_outcomes():
    p, q, _ = rows((0.4, 0.7), (0.2, 0.1))
    once = least_epsilon(*(each[None] for each in rows((0.4, 0.7), *[(0.2, 0.1)] * 3)), DELTA)
    np.testing.assert_allclose(least_epsilon(p[None], q[None], np.array([[1, 3]]), DELTA), once, rtol=1e-12)


def test_what_never_happens_on_the_other_side_is_infinite():
    p, q, times = rows((0.5, 0.0), (0.5, 1.0))
    assert least_epsilon(p[None], q[None], times[None], DELTA)[0] == math.inf
    assert least_epsilon(p[None], q[None], times[None], 0.6)[0] == 0
    assert compose(p, q, times, 100, 0.9) == math.inf
    rare = rows((1e-6, 0.0), (1 - 1e-6, 1.0))
    assert compose(*rare, 1, DELTA) == 0
    assert compose(*rare, 100, DELTA) == math.inf


@pytest.mark.parametrize("queries", [1, 2, 10, 300, 9000])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 2.0])
def test_randomised_response_in_closed_form(epsilon, queries):
    """Kairouz, Oh, Viswanath 2015, Theorem 3.3, which is what these steps are."""
    truth = independent.pure_composition(epsilon, queries, DELTA)
    found = compose(*response(epsilon), queries, DELTA)
    assert found <= truth * (1 + 1e-9)
    assert found >= 0.995 * truth
    yes = 1 / (1 + math.exp(-epsilon))
    np.testing.assert_allclose(compose_event(yes, 1 - yes, queries, DELTA), truth, rtol=1e-6)
    assert compose_event(yes, 1 - yes, queries, DELTA) <= truth * (1 + 1e-12)


@pytest.mark.parametrize("queries", [1, 20, 1000])
@pytest.mark.parametrize("mu", [0.05, 0.5])
def test_gaussian_in_closed_form(mu, queries):
    """A Gaussian cut into many outcomes; T of them are √T·μ-GDP (Dong, Roth, Su 2022, Corollary 3.3)."""
    edges = np.concatenate([[-np.inf], np.linspace(-7, 8, 2000), [np.inf]])
    p, q = np.diff(norm.cdf(edges, mu)), np.diff(norm.cdf(edges))
    shown = (p > 0) & (q > 0)
    found = compose(np.log(p[shown]), np.log(q[shown]), np.ones(int(shown.sum()), dtype=int), queries, DELTA)
    truth = independent.gaussian_dp(mu * math.sqrt(queries), DELTA)
    assert found <= truth
    assert found >= 0.99 * truth


@pytest.mark.parametrize(("p", "q"), [((0.6, 0.3, 0.1), (0.5, 0.3, 0.2)), ((0.9, 0.09, 0.01), (0.7, 0.1, 0.2))])
@pytest.mark.parametrize("queries", [5, 50])
def test_between_the_estimates_of_dp_accounting(p, q, queries):
    def library(pessimistic):
        losses = privacy_loss_distribution.from_two_probability_mass_functions(
            dict(enumerate(np.log(q))), dict(enumerate(np.log(p))),
            pessimistic_estimate=pessimistic, value_discretization_interval=1e-3, symmetric=False,
        )  # fmt: skip
        return losses.self_compose(queries).get_epsilon_for_delta(DELTA)

    both = zip(p, q, strict=True), zip(q, p, strict=True)
    found = max(compose(*rows(*pairs), queries, DELTA) for pairs in both)
    assert found <= library(True)
    assert found >= 0.99 * library(False)


def test_large_losses_neither_overflow_nor_round_to_infinity():
    found = compose(*response(2.0), 9000, DELTA)
    assert 0.99 * independent.pure_composition(2.0, 9000, DELTA) <= found < 18000
    yes = math.exp(-600)
    assert 29000 < compose(*rows((1.0, yes), (yes, 1.0)), 50, DELTA) <= 30000 * (1 + 1e-9)


@pytest.mark.parametrize(("p", "q"), [(0.3, 0.2), (0.999, 0.001), (0.01, 0.001)])
@pytest.mark.parametrize("queries", [1, 7])
def test_binary_by_brute_force(p, q, queries):
    k = np.arange(queries + 1)
    likely, rare = binom.pmf(k, queries, p), binom.pmf(k, queries, q)
    found = compose_event(p, q, queries, DELTA)
    assert brute(likely, rare, found + 1e-9) <= DELTA
    assert brute(likely, rare, found - 1e-9) >= DELTA


def test_binary_of_equal_and_of_certain_outcomes():
    assert compose_event(0.2, 0.2, 50, DELTA) == compose_event(0.1, 0.3, 50, DELTA) == 0
    assert compose_event(1.0, 0.5, 3, DELTA) == pytest.approx(3 * math.log(2), abs=1e-4)


def test_measurable_is_below_what_is_true_and_reaches_it():
    row = [each[None] for each in response(0.5)]
    few, many = (measurable_epsilon(*row, DELTA, runs, 0.95)[0] for runs in (1000, 10**12))
    assert few < many <= least_epsilon(*row, DELTA)[0]
    assert many == pytest.approx(0.5, rel=1e-4)
