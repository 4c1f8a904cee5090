"""Accountants compose, refine, convert and label; their totals are sums of the costs of single queries."""

import numpy as np
import pytest
from dp_accounting.rdp import compute_epsilon
from hypothesis import given
from hypothesis import strategies as st

from patebench.accounting import accountant as module
from patebench.accounting import conversion, rdp
from patebench.accounting.accountant import DirectAccountant, RenyiAccountant, repeated, summed
from patebench.core.bound import Conversion, Kind

ORDERS = np.array([1.5, 2.0, 8.0, 32.0])


def gaussian_accountant(sigma, **options):
    return RenyiAccountant(
        name="rdp",
        kind=Kind.WORST_CASE,
        source="a theorem",
        totals=repeated(lambda orders: rdp.gaussian(sigma, orders)),
        **{"orders": conversion.ORDERS, **options},
    )


def curve(rows, orders):
    return rdp.gaussian_data_dependent(rows, 40.0, orders)


@pytest.mark.parametrize("cells", [64, 1 << 15])
def test_composition_is_the_sum_of_single_queries_whatever_the_blocks(cells, monkeypatch):
    monkeypatch.setattr(module, "_CELLS", cells)
    log_q = -np.random.default_rng(0).exponential(8, size=700) - 0.7
    singles = np.array([curve(log_q[i : i + 1], ORDERS)[0] for i in range(700)])
    for queries in ([1, 5, 700], [700, 5, 5]):
        expected = [singles[:T].sum(axis=0) for T in queries]
        np.testing.assert_allclose(summed(curve, log_q)(queries, ORDERS), expected, rtol=1e-12)


def test_refinement_finds_the_analytic_optimum_of_the_classic_conversion():
    rho = 286 / 40**2  # min over α of ρα + ln(1/δ)/(α−1) is ρ + 2√(ρ ln 1/δ)
    classic = gaussian_accountant(40.0, conversions=(Conversion.CLASSIC,)).bounds([286], 1e-5)[0]
    assert classic.epsilon == pytest.approx(rho + 2 * np.sqrt(rho * np.log(1e5)), rel=1e-7)
    assert classic.order == pytest.approx(1 + np.sqrt(np.log(1e5) / rho), rel=1e-3)
    coarse = gaussian_accountant(40.0, conversions=(Conversion.CLASSIC,), refine=False).bounds([286], 1e-5)[0]
    assert coarse.epsilon > classic.epsilon
    assert coarse.order in conversion.ORDERS


@pytest.mark.parametrize(
    ("kind", "publishable"), [(Kind.WORST_CASE, True), (Kind.DATA_DEPENDENT, False), (Kind.CLAIMED, False)]
)
def test_bounds_carry_what_they_are(kind, publishable):
    accountant = DirectAccountant(name="plain", kind=kind, source="a theorem", epsilon=lambda T, delta: T * delta)
    first, second = accountant.bounds([2, 7], 0.125)
    assert (first.queries, first.epsilon, second.queries, second.epsilon) == (2, 0.25, 7, 0.875)
    assert (first.accountant, first.kind, first.source, first.delta) == ("plain", kind, "a theorem", 0.125)
    assert first.publishable is publishable
    assert (first.conversion, first.order) == (Conversion.NONE, None)


def test_an_unbounded_curve_gives_infinity_without_an_order():
    for bound in gaussian_accountant(0.0).bounds([1, 5], 1e-5):
        assert bound.epsilon == np.inf
        assert bound.order is None


GRID = np.array([1.02, 1.5, 2.0, 4.0, 16.0, 64.0, 1000.0])


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
@pytest.mark.parametrize("rho", [0.0, 1e-13, 1e-6, 1e-3, 0.1, 3.0])
def test_tight_is_that_of_dp_accounting(rho, delta):
    epsilons = conversion.tight(GRID, rho * GRID, delta)
    expected, order = compute_epsilon(GRID, rho * GRID, delta)
    assert epsilons.min() == pytest.approx(expected, rel=1e-12, abs=1e-15)
    if expected > 0:
        assert GRID[epsilons.argmin()] == order


@given(st.floats(0, 100), st.floats(1e-15, 0.5), st.floats(1.01, 1e6))
def test_tight_is_never_negative_nor_above_classic(value, delta, order):
    orders, curve = np.array([order]), np.array([value])
    tight = conversion.tight(orders, curve, delta)[0]
    assert 0 <= tight <= conversion.classic(orders, curve, delta)[0]
