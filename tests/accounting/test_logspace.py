"""Log-space arithmetic against mpmath."""

import mpmath as mp
import numpy as np
import pytest

from patebench.accounting import logspace


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(400):
        yield


def close(got, expected, relative=4e-15, absolute=0.0):
    assert abs(mp.mpf(float(got)) - expected) <= relative * abs(expected) + absolute


@pytest.mark.parametrize("x", [1e-300, 1e-20, 1e-8, 0.3, 0.693, 0.694, 2.0, 40.0, 700.0])
def test_log1mexp_and_log_expm1(x):
    close(logspace.log1mexp(-x), mp.log(-mp.expm1(-mp.mpf(x))))
    close(logspace.log_expm1(x), mp.log(mp.expm1(mp.mpf(x))), absolute=2e-16)


@pytest.mark.parametrize("rate", [1e-9, 0.05, 1 / 3, 2.7182818284590452])
@pytest.mark.parametrize("steps", [0, 1, -1, -17, -250, 199])
def test_exponentials_of_whole_multiples(rate, steps):
    close(logspace.exp_multiple(rate, np.array([steps]))[0], mp.exp(mp.mpf(rate) * steps), relative=1e-15)


def test_logarithms_of_zero_are_minus_infinity():
    assert logspace.log1mexp(0.0) == -np.inf
    assert logspace.log_expm1(0.0) == -np.inf
    assert logspace.logsumexp([-np.inf, -np.inf]) == -np.inf


def test_logsumexp_neither_overflows_nor_underflows():
    close(logspace.logsumexp([1e4, 1e4 - 1]), 10000 + mp.log(1 + mp.exp(-1)))
    close(logspace.logsumexp([-1e4, -1e4 - 1]), -10000 + mp.log(1 + mp.exp(-1)))


@pytest.mark.parametrize("log_q", [-600.0, -40.0, -5.0, -1.5])
@pytest.mark.parametrize("shift", [2.0**-30, 2.0**-10, 0.5, 1.25])
@pytest.mark.parametrize("exponent", [0.01, 1.0, 8.0, 1000.0])
def test_two_outcomes_keep_relative_accuracy(log_q, shift, exponent):
    """The sums `log_q + shift` are exact in double precision, so a difference is one of the function."""
    with mp.workdps(700):
        q, r, b = (mp.exp(mp.mpf(each)) for each in (log_q, log_q + shift, shift))
        expected = mp.log((1 - q) * ((1 - q) / (1 - r)) ** exponent + q * b**exponent)
    close(logspace.log_two_outcomes(log_q, log_q + shift, shift, exponent), expected, 1e-12)
