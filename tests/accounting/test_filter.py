"""The Rényi filter never exceeds its budget, and allows as many steps as non-adaptive composition."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patebench.accounting import conversion, rdp
from patebench.accounting.filter import PerQueryCost, RenyiFilter, allowance, best_order, queries_within
from patebench.core.errors import PatebenchError

DELTA = 1e-5


def gaussian(sigma):
    return lambda orders: rdp.gaussian(sigma, orders)


def flat(value):
    return lambda orders: np.full_like(orders, value)


def noisy_test(sigma):
    """Return the Rényi curve of comparing a count plus N(0, σ²) with a threshold; the sensitivity is 1."""
    return lambda orders: orders / (2 * sigma * sigma)


@given(st.floats(1.001, 1e5), st.floats(1e-3, 50), st.floats(1e-12, 0.4))
def test_the_allowance_is_the_inverse_of_the_tight_conversion(order, epsilon, delta):
    orders = np.array([order])
    most = allowance(orders, epsilon, delta)
    if most[0] > 0:
        assert conversion.tight(orders, most, delta)[0] <= epsilon
        scale = epsilon + abs(math.log(delta)) / (order - 1)
        more = most + 1e-10 * scale
        free = -np.expm1(-more) <= delta * delta  # the conversion knows that such a small divergence costs nothing
        assert free or conversion.tight(orders, more, delta)[0] > epsilon


@pytest.mark.parametrize("sigma", [5.0, 40.0, 80.0])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
def test_constant_costs_agree_with_composition_planned_in_advance(sigma, epsilon):
    """Allow as many steps as the same curve, composed without adaptivity and converted at its best order."""
    budget = RenyiFilter.for_steps(gaussian(sigma), epsilon=epsilon, delta=DELTA)
    put = queries_within(budget, [True] * 20_000, PerQueryCost(gaussian(sigma)))
    orders = 1 + np.geomspace(0.1, 1000, 50_001)

    def planned(T):
        return conversion.tight(orders, T * orders / sigma**2, DELTA).min()

    assert 0 < put < 20_000 or planned(1) > epsilon
    assert put == 0 or planned(put) <= epsilon
    assert planned(put + 1) > epsilon


@given(
    st.lists(st.floats(0, 0.2), max_size=60),
    st.sampled_from([0.1, 1.0, 4.0]),
    st.sampled_from([4.0, 20.0, 100.0]),
)
def test_no_sequence_of_costs_exceeds_the_budget(costs, epsilon, order):
    budget = RenyiFilter(epsilon=epsilon, delta=DELTA, order=order)
    exact, smallest_refused = Fraction(0), math.inf
    for cost in costs:
        if budget.admits(flat(cost)):
            budget.spend(flat(cost))
            exact += Fraction(cost)
        else:
            smallest_refused = min(smallest_refused, cost)
            with pytest.raises(PatebenchError, match="budget"):
                budget.spend(flat(cost))
    assert exact <= Fraction(budget.spent) <= Fraction(max(budget.allowance, 0.0))
    if exact:
        assert conversion.tight(np.array([order]), np.array([float(exact)]), DELTA)[0] <= epsilon
    if smallest_refused < math.inf:
        assert exact + Fraction(smallest_refused) > Fraction(budget.allowance) * Fraction(1 - 10**-12)


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.sampled_from([20.0, 60.0]), st.sampled_from([5.0, 20.0]))
def test_a_release_with_a_threshold_test_pays_for_each_test_and_each_answer(answered, sigma1, sigma2):
    budget = RenyiFilter(epsilon=2.0, delta=DELTA, order=8.0)
    put = queries_within(budget, answered, PerQueryCost(gaussian(sigma2), noisy_test(sigma1)))
    asked, given_ = put, sum(answered[:put])
    assert budget.spent == pytest.approx(8 * asked / (2 * sigma1**2) + 8 * given_ / sigma2**2, rel=1e-12)
    assert budget.spent <= budget.allowance
    if put < len(answered):
        assert budget.spent + 8 / (2 * sigma1**2) + 8 / sigma2**2 > budget.allowance * (1 - 1e-12)


def test_a_budget_too_small_for_its_order_admits_nothing_that_costs():
    budget = RenyiFilter(epsilon=0.1, delta=DELTA, order=2.0)
    assert budget.allowance < 0
    assert not budget.admits(flat(0.0))
    assert not budget.admits(flat(1e-300))


def test_an_unbounded_step_is_never_admitted_and_what_is_no_cost_is_refused():
    budget = RenyiFilter(epsilon=50.0, delta=DELTA, order=16.0)
    assert not budget.admits(gaussian(0.0))
    assert best_order(flat(math.inf), 1.0, DELTA) > 1
    for cost in (math.nan, -1e-9):
        with pytest.raises(PatebenchError, match=r"Rényi divergence of a step .* must be at least 0"):
            budget.admits(flat(cost))


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0.0}, {"epsilon": math.inf}, {"epsilon": math.nan}, {"delta": 0.0}, {"delta": 1.0}, {"order": 1.0}],
)
def test_impossible_budgets_are_refused(wrong):
    with pytest.raises(PatebenchError):
        RenyiFilter(**{"epsilon": 1.0, "delta": DELTA, "order": 8.0, **wrong})
