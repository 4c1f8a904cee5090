"""Searches that end on the safe side."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patebench.accounting import searches
from patebench.core.errors import PatebenchError


@given(st.floats(1e-6, 1e6), st.floats(1e-12, 1e-3), st.booleans())
def test_bisection_ends_next_to_the_edge_on_the_safe_side(boundary, near, rising):
    safe, unsafe = (0.0, 1e7) if rising else (1e7, 0.0)

    def holds(value):
        return value <= boundary if rising else value >= boundary

    found = searches.bisect(holds, safe, unsafe, near=near)
    assert holds(found)
    assert found == pytest.approx(boundary, rel=1.01 * near)


def test_bisection_ends_where_nothing_lies_between():
    found = searches.bisect(lambda value: value < 0.1, 0.0, 1.0)
    assert found == math.nextafter(0.1, 0)


@given(st.integers(0, 5000), st.integers(1, 4000))
def test_most_is_the_last_that_fits(edge, limit):
    assert searches.most(lambda number: float(number), edge + 0.5, limit) == min(edge, limit)


@given(st.floats(1e-9, 1e9), st.booleans())
def test_edge_keeps_the_budget_and_is_next_to_it(boundary, rising):
    def cost(value):
        return value / boundary if rising else boundary / value

    found = searches.edge(cost, 1.0)
    assert cost(found) <= 1.0
    assert found == pytest.approx(boundary, rel=1e-11)


@given(st.floats(1e-9, 1e9), st.floats(1e-12, 1e12), st.booleans())
def test_any_guess_finds_the_same_edge_and_a_near_one_in_few_steps(boundary, guess, rising):
    for start, most in ((guess, 30), (boundary * 0.995, 8), (boundary * 1.005, 8), (boundary, 8)):
        asked = []

        def cost(value, asked=asked):
            asked.append(value)
            share = value / boundary if rising else boundary / value
            return share * (1 + share) / 2

        found = searches.edge(cost, 1.0, guess=start, near=1e-7)
        assert len(asked) <= most
        assert cost(found) <= 1.0
        assert found == pytest.approx(boundary, rel=1.01e-7)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (lambda value: 2.0, "does not depend on this parameter"),
        (lambda value: math.inf, "infinite whatever the value"),
        (lambda value: 3 + 1 / value, "is too small: ε is at least"),
    ],
)
def test_what_can_not_be_reached_is_said(cost, message):
    with pytest.raises(PatebenchError, match=message):
        searches.edge(cost, 1.0)


def test_a_budget_that_everything_keeps_needs_least_noise():
    assert searches.edge(lambda sigma: 1 / (1 + sigma), 1.0) == searches.LEAST
    assert searches.edge(lambda gamma: gamma, math.inf) == searches.GREATEST
