"""Nothing returns NaN or a negative number, overflows, or gets cheaper with less noise, however extreme the numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.accounting.oracles import extremes

from patebench.accounting import conversion, independent, rdp
from patebench.core.bound import Conversion

ORDERS = np.array([1.01, 1.1, 2.0, 32.0, 1000.0])


def check(curve, largest):
    assert not np.isnan(curve).any()
    assert np.all((curve > 0) & (curve <= largest))
    for kind in Conversion.CLASSIC, Conversion.TIGHT:
        for row in np.atleast_2d(curve):
            for delta in (1e-300, 1e-5, 0.5):
                epsilon = conversion.convert(kind, ORDERS, row, delta)
                assert not np.isnan(epsilon).any()
                assert (epsilon >= 0).all()


@pytest.mark.parametrize("classes", [2, 10, 1000])
@pytest.mark.parametrize("scale", [1e-300, 1e-6, 0.1, 1.0, 40.0, 1e6, 1e150, math.inf])
def test_curves(classes, scale):
    counts = np.array([row for teachers in (2, 3, 250, 5000, 10**6) for row in extremes(teachers, classes)])
    gamma = 1 / scale
    of_gaussian, of_laplace = rdp.gaussian_log_q(counts, scale), rdp.laplace_log_q(counts, gamma)
    for log_q in (of_gaussian, of_laplace):
        assert np.all(log_q <= np.log1p(-1 / classes))
        assert np.all(np.isfinite(log_q))
    if scale < math.inf:
        check(rdp.gaussian(scale, ORDERS), math.inf)
        check(rdp.gaussian_data_dependent(of_gaussian, scale, ORDERS), rdp.gaussian(scale, ORDERS))
        check(rdp.laplace_data_dependent(of_laplace, gamma, ORDERS), 2 * gamma)
        check(rdp.moments_data_dependent(of_laplace, gamma, ORDERS - 1) / (ORDERS - 1), math.inf)
    no_noise = [
        rdp.gaussian_data_dependent(rdp.gaussian_log_q(counts, 0.0), 0.0, ORDERS),
        rdp.gaussian(0.0, ORDERS),
        rdp.laplace_data_dependent(rdp.laplace_log_q(counts, math.inf), math.inf, ORDERS),
        rdp.moments_data_dependent(of_laplace, math.inf, rdp.PUBLISHED_MOMENTS),
        rdp.laplace(math.inf, ORDERS),
    ]
    assert all(np.isposinf(curve).all() for curve in no_noise)


@pytest.mark.parametrize("product", [1, 36, 700, 709, 710, 745, 746, 10_000])
def test_gap_in_units_of_the_laplace_noise(product):
    log_q = rdp.laplace_log_q(np.array([[product, 0]]), 1.0)
    assert log_q[0] == pytest.approx(math.log(2 + product) - math.log(4) - product, rel=1e-15)
    curve = rdp.laplace_data_dependent(log_q, 1.0, ORDERS)
    check(curve, math.inf)


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1.0, 1e150, 1e200])
def test_what_is_too_small_for_a_number_is_rounded_up(scale):
    assert (rdp.gaussian(scale, ORDERS) > 0).all()
    assert (rdp.laplace(scale, ORDERS) > 0).all()
    assert (rdp.moments_data_independent(scale, rdp.PUBLISHED_MOMENTS) > 0).all()
    assert (rdp.gaussian(math.inf, ORDERS) == 0).all()  # noise that drowns everything tells nothing


@given(
    st.one_of(st.just(0.0), st.floats(1e-12, 1e12)),
    st.integers(1, 10_000),
    st.one_of(st.floats(1e-15, 0.9), st.just(1e-300)),
)
def test_bounds_without_a_curve(scale, queries, delta):
    gamma = 1 / scale if scale else math.inf
    for epsilon in (
        independent.strong_composition(gamma, queries, delta),
        independent.pure_composition(2 * gamma, queries, delta),
        independent.gaussian_dp(independent.cells_mu(scale, 2 * queries), delta),
    ):
        assert epsilon >= 0
        assert math.isinf(epsilon) or scale > 0
