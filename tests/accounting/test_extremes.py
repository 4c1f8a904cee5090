"""Nothing returns NaN or a negative number, overflows, or gets cheaper with less noise, however extreme the numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patebench.accounting import conversion, independent, rdp
from patebench.core.bound import Conversion

ORDERS = np.array([1.01, 1.1, 2.0, 32.0, 1000.0])
SCALES = [0.0, 1e-300, 1e-6, 0.1, 1.0, 40.0, 1e6, 1e150, math.inf]


def histograms(classes):
    """Return histograms (rows, classes) with unanimity, a tie or a narrow lead, of 2 to 10⁶ teachers."""
    rows = []
    for teachers in (2, 3, 250, 5000, 10**6):
        unanimous, tied, narrow = np.zeros((3, classes), dtype=np.int64)
        unanimous[classes - 1] = teachers
        tied[:2] = teachers // 2
        narrow[0], narrow[1] = teachers // 2 + 1, teachers - teachers // 2 - 1
        rows += [unanimous, tied, narrow]
    return np.array(rows)


def check(curve):
    assert not np.isnan(curve).any()
    assert (curve >= 0).all()
    for kind in Conversion.CLASSIC, Conversion.TIGHT:
        for row in np.atleast_2d(curve):
            for delta in (1e-300, 1e-5, 0.5):
                epsilon = conversion.convert(kind, ORDERS, row, delta)
                assert not np.isnan(epsilon).any()
                assert (epsilon >= 0).all()


@pytest.mark.parametrize("classes", [2, 10, 1000])
@pytest.mark.parametrize("scale", SCALES)
def test_gaussian_curves(classes, scale):
    log_q = rdp.gaussian_log_q(histograms(classes), scale)
    assert np.all(log_q <= np.log1p(-1 / classes))
    assert np.all(np.isfinite(log_q))
    curve = rdp.gaussian_data_dependent(log_q, scale, ORDERS)
    check(curve)
    assert np.all(curve <= rdp.gaussian(scale, ORDERS))
    check(rdp.gaussian(scale, ORDERS))


@pytest.mark.parametrize("classes", [2, 10, 1000])
@pytest.mark.parametrize("scale", SCALES)
def test_laplace_curves(classes, scale):
    gamma = 1 / scale if scale else math.inf
    log_q = rdp.laplace_log_q(histograms(classes), gamma)
    assert np.all(log_q <= np.log1p(-1 / classes))
    assert np.all(np.isfinite(log_q))
    if gamma == 0:
        return
    curve = rdp.laplace_data_dependent(log_q, gamma, ORDERS)
    check(curve)
    assert np.all(curve <= 2 * gamma)
    check(rdp.moments_data_dependent(log_q, gamma, ORDERS - 1) / (ORDERS - 1))


@pytest.mark.parametrize("ratio", [0, 1, 10, 37, 38, 39, 100, 500])
def test_gap_in_units_of_the_gaussian_noise(ratio):
    log_q = rdp.gaussian_log_q(np.array([[ratio, 0]]), 1.0)
    curve = rdp.gaussian_data_dependent(log_q, 1.0, ORDERS)
    check(curve)
    assert (curve > 0).all()
    assert log_q[0] >= -ratio * ratio / 4 - math.log(ratio + 1) - 2


@pytest.mark.parametrize("product", [1, 36, 700, 709, 710, 745, 746, 10_000])
def test_gap_in_units_of_the_laplace_noise(product):
    log_q = rdp.laplace_log_q(np.array([[product, 0]]), 1.0)
    assert log_q[0] == pytest.approx(math.log(2 + product) - math.log(4) - product, rel=1e-15)
    curve = rdp.laplace_data_dependent(log_q, 1.0, ORDERS)
    check(curve)
    assert (curve > 0).all()


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1.0, 1e150, 1e200])
def test_what_is_too_small_for_a_number_is_rounded_up(scale):
    assert (rdp.gaussian(scale, ORDERS) > 0).all()
    assert (rdp.laplace(scale, ORDERS) > 0).all()
    assert (rdp.moments_data_independent(scale, rdp.PUBLISHED_MOMENTS) > 0).all()
    assert (rdp.gaussian(math.inf, ORDERS) == 0).all()  # noise that drowns everything tells nothing


def test_no_noise_is_no_privacy():
    counts = histograms(10)
    assert np.all(np.isposinf(rdp.gaussian_data_dependent(rdp.gaussian_log_q(counts, 0.0), 0.0, ORDERS)))
    assert np.all(np.isposinf(rdp.gaussian(0.0, ORDERS)))
    log_q = rdp.laplace_log_q(counts, math.inf)
    assert np.all(np.isposinf(rdp.laplace_data_dependent(log_q, math.inf, ORDERS)))
    assert np.all(np.isposinf(rdp.moments_data_dependent(log_q, math.inf, rdp.PUBLISHED_MOMENTS)))
    assert np.all(np.isposinf(rdp.laplace(math.inf, ORDERS)))


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
        independent.gaussian_dp(independent.gnmax_mu(scale, queries), delta),
    ):
        assert epsilon >= 0
        assert math.isinf(epsilon) or scale > 0
