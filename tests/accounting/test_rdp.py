"""Scalable PATE's Rényi curves: official values, mpmath, and the conditions of Theorem 6."""

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant

from patebench.accounting import rdp

ORDERS = np.array([1.01, 1.5, 2.0, 8.0, 20.0, 50.0, 120.0])


def exact_log_q(counts, sigma):
    top, rest = max(counts), list(counts)
    rest.remove(top)
    q = mp.fsum(mp.erfc(mp.mpf(top - c) / (2 * mp.mpf(sigma))) / 2 for c in rest)
    return mp.log(min(q, 1 - mp.mpf(1) / len(counts)))


def exact_theorem_6(log_q, sigma, order):
    log_q, sigma, order = mp.mpf(log_q), mp.mpf(sigma), mp.mpf(order)
    independent = order / sigma**2
    mu2 = sigma * mp.sqrt(-log_q)
    mu1 = mu2 + 1
    if mu2 <= 1 or order > mu1:
        return independent
    epsilon1, epsilon2, q = mu1 / sigma**2, mu2 / sigma**2, mp.exp(log_q)
    largest = mp.exp((mu2 - 1) * epsilon2) / (mu1 / (mu1 - 1) * mu2 / (mu2 - 1)) ** mu2
    if q > largest or q * mp.exp(epsilon2) >= 1:
        return independent
    A = (1 - q) / (1 - (q * mp.exp(epsilon2)) ** ((mu2 - 1) / mu2))
    B = mp.exp(epsilon1) / q ** (1 / (mu1 - 1))
    return min(independent, mp.log((1 - q) * A ** (order - 1) + q * B ** (order - 1)) / (order - 1))


@pytest.mark.parametrize(
    ("counts", "log_q", "values"),
    [
        (
            [200, 30, 20, 0, 0, 0, 0, 0, 0, 0],
            -5.6599459785,
            {2: 8.7965783e-4, 8: 1.0856417e-3, 20: 1.9955508e-3, 50: 1.6448154e-2},
        ),
        ([250] + [0] * 9, -10.0192282943, {20: 5.3213178e-5}),
        ([130, 120] + [0] * 8, None, {2: 2 / 1600, 20: 20 / 1600, 50: 50 / 1600}),
    ],
)
def test_official_values(counts, log_q, values):
    got = rdp.gaussian_log_q(np.array([counts]), 40.0)
    if log_q is not None:
        assert got[0] == pytest.approx(log_q, abs=1e-10)
    curve = rdp.gaussian_data_dependent(got, 40.0, np.array([float(order) for order in values]))[0]
    np.testing.assert_allclose(curve, list(values.values()), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("sigma", [0.4, 1.0, 5.0, 40.0, 200.0])
@pytest.mark.parametrize("counts", [[250] + [0] * 9, [150, 90, 10], [90, 150, 10], [125, 125], [6, 0, 1], [5000, 0]])
def test_theorem_6_against_mpmath(counts, sigma):
    got = rdp.gaussian_log_q(np.array([counts]), sigma)
    with mp.workdps(60):
        assert got[0] == pytest.approx(float(exact_log_q(counts, sigma)), rel=1e-12)
    curve = rdp.gaussian_data_dependent(got, sigma, ORDERS)[0]
    digits = 60 + int(-got[0] / 2)
    with mp.workdps(min(digits, 1200)):
        expected = [float(exact_theorem_6(got[0], sigma, order)) for order in ORDERS]
    np.testing.assert_allclose(curve, expected, rtol=1e-10, atol=1e-297)  # nothing is rounded to 0
    assert (curve > 0).all()


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 0.1, 1.0, 10.0, 400.0])
def test_pure_dp_curve_is_the_divergence_of_randomised_response(epsilon):
    got = rdp.pure(epsilon, ORDERS)
    with mp.workdps(400):
        p = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
        moment = [p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a) for a in map(mp.mpf, ORDERS)]
        expected = [float(mp.log(m) / (a - 1)) for m, a in zip(moment, ORDERS, strict=True)]
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_gaussian_curve_is_that_of_dp_accounting():
    from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

    accountant = rdp_privacy_accountant.RdpAccountant(ORDERS)
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(40 / np.sqrt(2)), 286))
    np.testing.assert_allclose(286 * rdp.gaussian(40.0, ORDERS), accountant._rdp, rtol=1e-12)
