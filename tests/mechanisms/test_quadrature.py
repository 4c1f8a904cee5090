"""Outcome probabilities against exact antiderivatives, high-precision sums and closed forms."""

from collections import Counter
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from patebench.mechanisms.noise import Gaussian, Laplace
from patebench.mechanisms.quadrature import log_argmax_probabilities

HISTOGRAMS = [
    [125, 125],
    [250, 0],
    [3, 2, 2],
    [150, 90, 10],
    [0, 7, 0, 3],
    [25] * 10,
    [250] + [0] * 9,
    [200, 20, 10, 5, 5, 2, 2, 2, 2, 2],
    [40, 35, 31, 30, 29, 25, 20, 17, 13, 10],
    [2500, 2400, 90, 10],
]


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


def exact_laplace(counts, scale):
    """Compute ln P(j) from antiderivatives: between two counts every integrand is a sum of exponentials in x."""
    values = [mp.mpf(c) / mp.mpf(scale) for c in sorted(set(counts), reverse=True)]
    multiplicity = [Counter(counts)[c] for c in sorted(set(counts), reverse=True)]
    found = []
    for j, centre in enumerate(values):
        edges = [-mp.inf, *reversed(values), mp.inf]
        total = mp.mpf(0)
        for low, high in pairwise(edges):
            terms = {1: mp.exp(-centre) / 2} if high <= centre else {-1: mp.exp(centre) / 2}
            for k, value in enumerate(values):
                terms = times(terms, distribution(value, multiplicity[k] - (k == j), high <= value))
            total += mp.fsum(c * integral(power, low, high) for power, c in terms.items())
        found.append(mp.log(total))
    return [found[sorted(set(counts), reverse=True).index(c)] for c in counts]


def distribution(value, power, below):
    """Return Pr[Lap ≤ x − value]^power as {exponent of eˣ: coefficient}, for x below or above `value`."""
    if below:
        return {power: (mp.exp(-value) / 2) ** power}
    return {-i: mp.binomial(power, i) * (-mp.exp(value) / 2) ** i for i in range(power + 1)}


def times(left, right):
    product = {}
    for a, x in left.items():
        for b, y in right.items():
            product[a + b] = product.get(a + b, 0) + x * y
    return product


def integral(power, low, high):
    if power == 0:
        return high - low
    upper = mp.exp(power * high) if mp.isfinite(high) else mp.mpf(0)
    lower = mp.exp(power * low) if mp.isfinite(low) else mp.mpf(0)
    return (upper - lower) / power


def exact_gaussian(counts, scale, per_unit=16):
    """Compute ln P(j) by the trapezoid rule on a fine lattice, exponentially accurate for entire integrands."""
    values = [mp.mpf(c) / mp.mpf(scale) for c in counts]
    first, last = mp.floor(min(values)) - 11, mp.ceil(max(values)) + 13
    totals = dict.fromkeys(set(values), mp.mpf(0))
    for i in range(int((last - first) * per_unit)):
        x = first + mp.mpf(i) / per_unit
        tail = {v: mp.erfc((v - x) / mp.sqrt(2)) / 2 for v in totals}
        everyone = mp.fprod(tail[v] for v in values)
        for v in totals:
            totals[v] += mp.exp(-((x - v) ** 2) / 2) * everyone / tail[v]
    return [float(mp.log(totals[v] / per_unit / mp.sqrt(2 * mp.pi))) for v in values]


@pytest.mark.slow
@pytest.mark.parametrize("scale", [100.0, 20.0, 1.0])
@pytest.mark.parametrize("counts", HISTOGRAMS, ids=str)
def test_laplace_against_antiderivatives(counts, scale):
    with mp.workdps(60 + int(3 * max(counts) / scale)):
        expected = [float(log_p) for log_p in exact_laplace(counts, scale)]
    got = log_argmax_probabilities(np.array([counts]), Laplace(scale))[0]
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [40.0, 10.0])
@pytest.mark.parametrize("counts", HISTOGRAMS[:-1], ids=str)
def test_gaussian_against_mpmath(counts, scale):
    with mp.workdps(30):
        expected = exact_gaussian(counts, scale)
    got = log_argmax_probabilities(np.array([counts]), Gaussian(scale))[0]
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
    st.floats(-2, 6),
    st.sampled_from([Laplace, Gaussian]),
)
def test_outcomes_exhaust_all_probability(counts, magnitude, kind):
    got = log_argmax_probabilities(np.array([counts]), kind(10**magnitude))
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


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e-3, 1e9, 1e300])
@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_extreme_scales_give_probabilities(kind, scale):
    counts = np.array([[10**6, 0, 0], [500_000, 499_999, 1], [400_000, 400_000, 200_000]])
    got = log_argmax_probabilities(counts, kind(scale))
    assert np.all(got <= 0)
    assert not np.isnan(got).any()
    np.testing.assert_allclose(np.exp(got).sum(axis=1), 1, atol=1e-11)


def test_unsigned_and_small_integers_do_not_wrap():
    counts = np.array([[200, 30, 20]])
    for kind in np.uint8, np.uint64, np.int16:
        np.testing.assert_array_equal(
            log_argmax_probabilities(counts.astype(kind), Gaussian(40.0)),
            log_argmax_probabilities(counts, Gaussian(40.0)),
        )
