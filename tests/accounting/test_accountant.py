"""Accountants compose, refine, convert and label; their totals are sums of the costs of single queries."""

import numpy as np
import pytest

from patebench.accounting import accountant as module
from patebench.accounting import conversion, rdp
from patebench.accounting.accountant import DirectAccountant, RenyiAccountant, check_queries, repeated, summed
from patebench.core.bound import Conversion, Kind
from patebench.core.errors import PatebenchError

ORDERS = np.array([1.5, 2.0, 8.0, 32.0])


def gaussian_accountant(sigma, **options):
    return RenyiAccountant(
        name="rdp",
        kind=Kind.WORST_CASE,
        source="a theorem",
        totals=repeated(lambda orders: rdp.gaussian(sigma, orders)),
        **{"orders": conversion.ORDERS, **options},
    )


@pytest.fixture
def log_q():
    return -np.random.default_rng(0).exponential(8, size=700) - 0.7


def curve(rows, orders):
    return rdp.gaussian_data_dependent(rows, 40.0, orders)


def test_composition_is_the_sum_of_single_queries(log_q):
    totals = summed(curve, log_q)([1, 5, 700], ORDERS)
    singles = np.array([curve(log_q[i : i + 1], ORDERS)[0] for i in range(700)])
    np.testing.assert_allclose(totals, [singles[:1].sum(0), singles[:5].sum(0), singles.sum(0)], rtol=1e-12)


def test_sums_do_not_depend_on_the_order_of_the_request_or_on_blocks(log_q, monkeypatch):
    whole = summed(curve, log_q)([700, 5, 5], ORDERS)
    monkeypatch.setattr(module, "_CELLS", 64)
    np.testing.assert_allclose(summed(curve, log_q)([5, 700], ORDERS)[[1, 0, 0]], whole, rtol=1e-12)


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


@pytest.mark.parametrize("queries", [[], [0], [-3], [5, 11]])
def test_impossible_numbers_of_queries_are_refused(queries):
    with pytest.raises(PatebenchError, match="queries"):
        check_queries(queries, 10)
