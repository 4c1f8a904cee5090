"""Channels: the formulas of the papers, recomputed by loops to 40 digits."""

import mpmath as mp
import numpy as np
import pytest
from tests.accounting.oracles import divergence, hockey_stick

from patebench.mechanisms.local_mechanisms import RandomisedResponse, TruncatedGeometric

KINDS = {"truncated-geometric": TruncatedGeometric.channel, "randomised-response": RandomisedResponse.channel}
EPSILONS = [1e-3, 0.1, 1.0, 5.0, 30.0]
CLASSES = [2, 3, 10]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def by_formula(kind, epsilon, classes):
    """Return the matrix [vote][report] of Pr[report | vote] by its formula, to 40 digits."""
    with mp.workdps(40):
        epsilon = mp.mpf(epsilon)
        if kind == "randomised-response":
            total = mp.exp(epsilon) + classes - 1
            return [[(mp.exp(epsilon) if k == z else 1) / total for z in range(classes)] for k in range(classes)]
        alpha = mp.exp(-epsilon / classes)
        ends = (0, classes - 1)
        return [
            [alpha ** abs(z - k) * (1 if z in ends else 1 - alpha) / (1 + alpha) for z in range(classes)]
            for k in range(classes)
        ]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("classes", CLASSES)
def test_the_worst_ratio_is_the_local_epsilon(kind, epsilon, classes):
    """The matrix is that of the formula, and its inverse makes estimates unbiased."""
    found, rows = KINDS[kind](epsilon, classes), by_formula(kind, epsilon, classes)
    np.testing.assert_allclose(found.log_p, [[float(mp.log(p)) for p in row] for row in rows], rtol=1e-13)
    np.testing.assert_allclose(found.matrix.sum(axis=1), 1, rtol=1e-13)
    worst = max(mp.log(one[z] / other[z]) for one in rows for other in rows for z in range(classes))
    assert worst - mp.mpf(10) ** -14 <= found.local_epsilon <= epsilon * (1 + 1e-12)
    slack = (classes - 1) / classes if kind == "truncated-geometric" else 1
    assert found.local_epsilon == pytest.approx(float(worst), rel=1e-10) == pytest.approx(epsilon * slack, rel=1e-10)
    if 0.1 <= epsilon <= 5:
        np.testing.assert_allclose(found.matrix @ found.inverse, np.eye(classes), atol=1e-9)


@pytest.mark.parametrize("epsilon", [1e-100, 1e-16, 1e-9, 1e-3])
@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_a_small_epsilon_is_not_rounded_down(kind, epsilon, classes):
    """At a small ε, differences of rounded logarithms are wrong, or 0."""
    share = (mp.mpf(classes) - 1) / classes if kind == "truncated-geometric" else mp.mpf(1)
    channel = KINDS[kind](epsilon, classes)
    assert share * mp.mpf(epsilon) <= channel.local_epsilon <= float(share) * epsilon * (1 + 1e-12)
    assert channel.renyi(np.array([2.0])).shape == (1,)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_variance_is_that_of_draws(kind, epsilon):
    found = KINDS[kind](epsilon, 4)
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 4, size=200_000)
    reports = np.array([rng.choice(4, size=np.sum(votes == k), p=found.matrix[k]) for k in range(4)], dtype=object)
    estimates = found.inverse[np.concatenate(reports).astype(int)]
    assert found.variance == pytest.approx(estimates.var(axis=0).sum(), rel=0.02)


@pytest.mark.parametrize("order", [1.2, 2.0, 17.0])
@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_renyi_divergence_of_the_worst_pair(kind, epsilon, order):
    rows = by_formula(kind, epsilon, 5)
    with mp.workdps(40):
        divergences = [divergence(one, other, order) for one in rows for other in rows]
    found = KINDS[kind](epsilon, 5).renyi(np.array([order]))[0]
    assert found >= float(max(divergences)) * (1 - 1e-15)
    assert found == pytest.approx(float(max(divergences)), rel=1e-10)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("classes", CLASSES)
def test_first_and_last_class_are_told_apart_best(kind, epsilon, classes):
    """Of all pairs, at all ε: that this pair may stand for the others in compositions."""
    channel = KINDS[kind](epsilon, classes)
    for at in np.linspace(-1.2 * epsilon, 1.2 * epsilon, 49):
        best = hockey_stick(channel.matrix[0], channel.matrix[-1], at)
        for one, other in zip(*channel.pairs, strict=True):
            assert hockey_stick(channel.matrix[one], channel.matrix[other], at) <= best + 1e-14


def test_without_noise_nothing_is_private(kind):
    channel = KINDS[kind](np.inf, 4)
    np.testing.assert_array_equal(channel.matrix, np.eye(4))
    np.testing.assert_array_equal(channel.inverse, np.eye(4))
    assert channel.local_epsilon == np.inf
    assert np.all(channel.renyi(np.array([1.5, 20.0])) == np.inf)


def test_the_paper_lets_votes_run_one_too_far():
    """Its equation 2 sums to one over the M + 1 values from 0 to M, and classes are 1 … M."""
    alpha, M, vote = np.exp(-0.3 / 5), 5, 2
    inner = (1 - alpha) / (1 + alpha) * alpha ** np.abs(np.arange(1, M) - vote)
    ends = (alpha**vote + alpha ** (M - vote)) / (1 + alpha)
    assert inner.sum() + ends == pytest.approx(1)
