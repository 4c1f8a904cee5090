"""PATE 2017's moments: the bound on q, Theorem 1 with its guard, and the values that our notes state."""

import mpmath as mp
import numpy as np
import pytest

from patebench.accounting import rdp

HISTOGRAMS = [
    [250, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [150, 90, 10],
    [90, 150, 10],
    [125, 125],
    [0, 7, 0, 3],
    [25] * 10,
    [200, 20, 10, 5, 5, 2, 2, 2, 2, 2],
    [1000000, 0],
    [700, 300] + [0] * 998,
]
GAMMAS = [0.001, 0.01, 0.05, 0.3, 1.0, 4.0]


def exact_log_q(counts, gamma):
    gamma, top = mp.mpf(gamma), max(counts)
    rest = list(counts)
    rest.remove(top)
    q = mp.fsum((2 + gamma * (top - c)) / (4 * mp.exp(gamma * (top - c))) for c in rest)
    return mp.log(min(q, 1 - mp.mpf(1) / len(counts)))


def exact_theorem(log_q, gamma, moment):
    q, gamma = mp.exp(mp.mpf(log_q)), mp.mpf(gamma)
    independent = min(2 * gamma**2 * moment * (moment + 1), 2 * gamma * moment)
    if q > 1 / (mp.exp(2 * gamma) + 1):
        return independent
    bound = mp.log((1 - q) * ((1 - q) / (1 - mp.exp(2 * gamma) * q)) ** moment + q * mp.exp(2 * gamma * moment))
    return min(bound, independent)


@pytest.mark.parametrize("counts", HISTOGRAMS, ids=str)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_log_q_is_lemma_4(counts, gamma):
    with mp.workdps(40):
        expected = exact_log_q(counts, gamma)
    got = rdp.laplace_log_q(np.array([counts]), gamma)[0]
    assert got == pytest.approx(float(expected), rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("counts", HISTOGRAMS[:-1], ids=str)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_theorem_1_against_mpmath(counts, gamma):
    log_q = rdp.laplace_log_q(np.array([counts]), gamma)
    moment = np.array([1.0, 2.0, 5.0, 8.0, 40.0, 0.01])
    got = rdp.moments_data_dependent(log_q, gamma, moment)[0]
    with mp.workdps(600):  # q may be as small as e⁻⁷⁰⁰
        expected = [float(exact_theorem(log_q[0], gamma, mp.mpf(x))) for x in moment]
    np.testing.assert_allclose(got, np.maximum(expected, 1e-300), rtol=1e-12)  # nothing is rounded to 0


def test_the_guard_is_the_theorem_s_not_one_half():
    gamma, moment = 1.0, np.array([1.0, 8.0])
    guard = -np.log(np.exp(2 * gamma) + 1)
    independent = rdp.moments_data_independent(gamma, moment)
    outside = rdp.moments_data_dependent(np.array([guard + 1e-9, -np.log(4)]), gamma, moment)
    np.testing.assert_array_equal(outside, [independent, independent])
    assert np.all(rdp.moments_data_dependent(np.array([guard - 1.0]), gamma, moment) < independent)
