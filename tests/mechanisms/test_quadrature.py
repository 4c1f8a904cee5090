"""Outcome probabilities against exact antiderivatives, high-precision sums and closed forms."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr
from tests.accounting import exact_reference

from patebench.mechanisms.noise import Gaussian, Laplace
from patebench.mechanisms.quadrature import log_argmax_probabilities


@pytest.mark.parametrize("scale", [0.3, 3.0, 40.0, 1000.0])
@pytest.mark.parametrize("kind", ["tied", "tail", "sure", "spread"])
def test_a_thousand_classes_with_gaussian_noise(kind, scale):
    """Compare with a fine lattice, which is exponentially accurate, for products of many distribution functions."""
    counts = {
        "tied": np.full(1000, 5),
        "tail": np.r_[4500, 90, 60, 60, np.arange(50, 0, -1), np.zeros(946, int)],
        "sure": np.r_[250, np.zeros(999, int)],
        "spread": np.arange(1000)[::-1] // 3,
    }[kind]
    # Outside [−26, 20] the integrand is below e^−338, and only probabilities above e^−300 are compared.
    values, at, multiplicity = np.unique((counts - counts[0]) / scale, return_inverse=True, return_counts=True)
    x = np.arange(-26, 20, 1 / 64)[:, None]
    below = log_ndtr(x - values)
    terms = -((x - values) ** 2) / 2 + (multiplicity * below).sum(axis=1, keepdims=True) - below
    expected = (np.logaddexp.reduce(terms, axis=0) - np.log(64 * np.sqrt(2 * np.pi)))[at]
    found = log_argmax_probabilities(counts[None], Gaussian(scale))[0]
    near = (expected > -300) & (expected < -1e-3)
    assert np.any(near) or kind in ("tail", "sure")
    np.testing.assert_allclose(found[near], expected[near], rtol=1e-13, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise", [Laplace(100.0), Laplace(20.0), Laplace(1.0), Gaussian(40.0), Gaussian(10.0)], ids=str
)
@pytest.mark.parametrize("counts", exact_reference.FEW[::2] + exact_reference.TENS[::2], ids=str)
def test_probabilities_against_mpmath(counts, noise):
    kind = "laplace" if isinstance(noise, Laplace) else "gaussian"
    with mp.workdps(40):
        expected = [float(mp.log(p)) for p in exact_reference.probabilities(kind, noise.scale, counts)]
    got = log_argmax_probabilities(np.array([counts]), noise)[0]
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ratio", [0, 1e-3, 1, 10, 50, 500, 5000])
def test_two_classes_have_closed_forms(ratio):
    laplace = log_argmax_probabilities(np.array([[0.0, ratio]]), Laplace(1.0))[0]
    gaussian = log_argmax_probabilities(np.array([[0.0, ratio]]), Gaussian(1.0))[0]
    losing = np.log1p(ratio / 2) - np.log(2) - ratio, log_ndtr(-ratio / np.sqrt(2))
    for got, expected in zip((laplace, gaussian), losing, strict=True):
        assert got[0] == pytest.approx(expected, rel=1e-12)
        # relative accuracy of the winner too, whose ln P is as small as the loser's P
        assert got[1] == pytest.approx(np.log1p(-np.exp(expected)), rel=1e-9 * max(1, ratio), abs=0)


@pytest.mark.parametrize("noise", [Laplace(0.01), Laplace(20.0), Gaussian(0.02), Gaussian(40.0), Gaussian(1e9)])
@pytest.mark.parametrize("classes", [2, 3, 10, 100, 1000])
def test_ties_share_equally(classes, noise):
    got = log_argmax_probabilities(np.full((1, classes), 1000), noise)
    np.testing.assert_allclose(got, -np.log(classes), rtol=1e-12)


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 10**6), min_size=2, max_size=30),
    st.one_of(st.floats(-2, 6), st.sampled_from([-300.0, -9.0, 9.0, 300.0])),
    st.sampled_from([Laplace, Gaussian]),
)
def test_outcomes_exhaust_all_probability(counts, magnitude, kind):
    got = log_argmax_probabilities(np.array([counts]), kind(10**magnitude))
    assert np.all(got <= 0)
    assert np.exp(got).sum() == pytest.approx(1, abs=1e-11)
    order = np.argsort(counts, kind="stable")
    assert np.all(np.diff(got[0, order]) >= 0), "more votes never make a class less likely"


def test_rows_and_classes_may_come_in_any_order():
    rng = np.random.default_rng(3)
    counts = np.stack([rng.multinomial(250, p) for p in rng.dirichlet(np.full(10, 0.3), 200)])
    for noise in Laplace(20.0), Gaussian(40.0):
        plain = log_argmax_probabilities(counts, noise)
        rows, classes = rng.permutation(200), rng.permutation(10)
        shuffled = log_argmax_probabilities(counts[rows][:, classes], noise)
        np.testing.assert_array_equal(shuffled, plain[rows][:, classes])
        single = np.vstack([log_argmax_probabilities(row[None], noise) for row in counts[:20]])
        np.testing.assert_allclose(single, plain[:20], rtol=1e-13)


def test_no_noise_picks_the_plurality_and_of_tied_classes_the_lowest():
    counts = np.array([[3, 5, 5], [9, 0, 1]])
    for noise in Laplace(0.0), Gaussian(0.0):
        np.testing.assert_array_equal(np.exp(log_argmax_probabilities(counts, noise)), [[0, 1, 0], [1, 0, 0]])


def test_unsigned_and_small_integers_do_not_wrap():
    counts = np.array([[200, 30, 20]])
    for kind in np.uint8, np.uint64, np.int16:
        np.testing.assert_array_equal(
            log_argmax_probabilities(counts.astype(kind), Gaussian(40.0)),
            log_argmax_probabilities(counts, Gaussian(40.0)),
        )
