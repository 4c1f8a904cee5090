"""From Rényi curves to (ε, δ), against the published formulas and dp-accounting."""

import numpy as np
import pytest
from dp_accounting.rdp import compute_epsilon
from hypothesis import given
from hypothesis import strategies as st

from patebench.accounting import conversion
from patebench.core.bound import Conversion

ORDERS = np.array([1.02, 1.5, 2.0, 4.0, 16.0, 64.0, 1000.0])


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
@pytest.mark.parametrize("rho", [0.0, 1e-13, 1e-6, 1e-3, 0.1, 3.0])
def test_tight_is_that_of_dp_accounting(rho, delta):
    epsilons = conversion.tight(ORDERS, rho * ORDERS, delta)
    expected, order = compute_epsilon(ORDERS, rho * ORDERS, delta)
    assert epsilons.min() == pytest.approx(expected, rel=1e-12, abs=1e-15)
    if expected > 0:
        assert ORDERS[epsilons.argmin()] == order


@given(st.floats(0, 100), st.floats(1e-15, 0.5), st.floats(1.01, 1e6))
def test_tight_is_never_negative_nor_above_classic(value, delta, order):
    orders, curve = np.array([order]), np.array([value])
    tight = conversion.tight(orders, curve, delta)[0]
    assert 0 <= tight <= conversion.classic(orders, curve, delta)[0]


@pytest.mark.parametrize("kind", [Conversion.CLASSIC, Conversion.TIGHT])
def test_an_infinite_curve_gives_infinity(kind):
    assert np.all(np.isposinf(conversion.convert(kind, ORDERS, np.full_like(ORDERS, np.inf), 1e-5)))
