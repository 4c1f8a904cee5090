"""The sparse vector theorem against the divergence of all transcripts, by quadrature over the threshold's noise."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from tests.accounting.oracles import renyi

from patebench.accounting import sparse_vector

ORDERS = np.array([1.1, 2.0, 5.0, 12.0, 40.0])

#: Density and distribution of the noise at scale 1, and how far its tail reaches.
NORMAL = (lambda x: np.exp(-x * x / 2) / math.sqrt(2 * math.pi), ndtr, 30.0)
LAPLACE = (lambda x: np.exp(-abs(x)) / 2, lambda x: np.where(x < 0, np.exp(-abs(x)) / 2, 1 - np.exp(-abs(x)) / 2), 60.0)


def transcripts(queries, cutoff):
    """Return all transcripts: the queries that passed, as long as there were tests."""
    seen = set()
    for passed in itertools.product((True, False), repeat=queries):
        failed = np.cumsum([not each for each in passed])
        last = int(np.searchsorted(failed, cutoff)) + 1
        seen.add(passed[: min(last, queries)])
    return sorted(seen)


def probabilities(distances, cutoff, threshold, scales, noise):
    """Return Pr of each transcript, by Gauss–Legendre quadrature over the threshold noise ρ between kinks."""
    density, distribution, reach = noise
    edge = reach * scales[0]
    bends = {-edge, edge, 0.0, *(d - threshold for d in distances), *np.linspace(-edge, edge, 61)}
    edges = np.array(sorted(each for each in bends if abs(each) <= edge))
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = np.diff(edges)[:, None] / 2
    rho = (edges[:-1, None] + half + half * nodes).ravel()
    mass = (half * weights).ravel() * density(rho / scales[0]) / scales[0]
    failing = [distribution((threshold + rho - d) / scales[1]) for d in distances]
    passing = [distribution((d - threshold - rho) / scales[1]) for d in distances]
    return np.array(
        [
            np.sum(mass * np.prod([passing[q] if ok else failing[q] for q, ok in enumerate(seen)], axis=0))
            for seen in transcripts(len(distances), cutoff)
        ]
    )


def divergences(p, q):
    return renyi(np.log(p), np.log(q), ORDERS)


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "cutoff"), [(1, 1), (3, 1), (4, 2), (3, 5)])
@pytest.mark.parametrize(
    ("noise", "theorem"),
    [(NORMAL, sparse_vector.gaussian), (LAPLACE, sparse_vector.laplace)],
    ids=["gaussian", "laplace"],
)
@pytest.mark.parametrize("scales", [(1.5, 3.0), (4.0, 1.2), (0.7, 0.8)], ids=str)
def test_no_transcript_costs_more(queries, cutoff, noise, theorem, scales):
    """Random distances around the threshold, which change by one up or down, or not; all up; all down."""
    rng, bound = np.random.default_rng(queries), theorem(*scales, queries, cutoff, ORDERS)
    for threshold in (0.0, 2.5):
        for trial in range(8):
            distances = rng.integers(-3, 8, size=queries)
            change = [1, -1][trial] if trial < 2 else rng.integers(-1, 2, size=queries)
            p, q = (probabilities(d, cutoff, threshold, scales, noise) for d in (distances, distances + change))
            assert p.sum() == pytest.approx(1, abs=1e-9)
            assert np.all(np.maximum(divergences(p, q), divergences(q, p)) <= bound * (1 + 1e-9))


def test_the_bound_is_not_much_above_what_is_found():
    """Test queries that mostly pass and all come closer to failing by one, with little noise on the threshold."""
    for noise, theorem in ((NORMAL, sparse_vector.gaussian), (LAPLACE, sparse_vector.laplace)):
        p, q = (probabilities([d] * 6, 1, 0.5, (0.01, 3.0), noise) for d in (3, 4))
        alone = theorem(1e9, 6.0, 6, 1, ORDERS)
        assert np.all(alone < 8 * np.maximum(divergences(p, q), divergences(q, p)))


def recursion(test_sigma, queries, cutoff, order):
    """Compute ln V/(α − 1) of the proof, with x on a grid: the best that its method can give, from below."""
    shift = 2 / test_sigma
    x = np.linspace(-9 - (order - 1) * shift, 8, 4001)
    failed = np.exp(order * log_ndtr(x) - (order - 1) * log_ndtr(x - shift))
    passed = np.exp(order * log_ndtr(-x) - (order - 1) * log_ndtr(shift - x))
    table = np.ones((queries + 1, cutoff + 1))
    for t in range(1, queries + 1):
        for j in range(1, cutoff + 1):
            table[t, j] = np.max(failed * table[t - 1, j - 1] + passed * table[t - 1, j])
    return math.log(table[queries, cutoff]) / (order - 1)


@pytest.mark.parametrize(("queries", "cutoff"), [(1, 1), (20, 3), (60, 10)])
@pytest.mark.parametrize("test_sigma", [3.0, 12.0])
def test_the_closed_form_follows_the_recursion_of_its_proof(queries, cutoff, test_sigma):
    for order in (2.0, 4.0, 9.0):
        exact = recursion(test_sigma, queries, cutoff, order)
        found = sparse_vector.gaussian(1e9, test_sigma, queries, cutoff, np.array([order]))[0]
        assert exact <= found <= 1.5 * exact


@pytest.mark.parametrize("shift", [0.05, 0.4, 2.0])
def test_its_constants_satisfy_the_inequality(shift):
    orders = (1.2, 3.0, 9.0)
    log_k, log_b = sparse_vector._gaussian_constants(shift, orders)
    with mp.workdps(200):
        for row, order in enumerate(orders):
            for x in np.concatenate([np.linspace(-9, 9, 19), [-15.0, -25.0], [-(order - 1) * shift]]):
                u, there, rest, rest_there = (mp.ncdf(z) for z in (x, x - shift, -x, shift - x))
                g, passed = u**order * there ** (1 - order), rest**order * rest_there ** (1 - order)
                for k, b in zip(log_k[row, ::5], log_b[row, ::5], strict=True):
                    assert g <= mp.exp(k) * (1 - passed) + mp.exp(b)


def test_laplace_has_the_standard_pure_bound_as_its_limit():
    huge = np.array([1e9])
    for queries, cutoff in ((1000, 7), (5, 7)):
        pure = 1 / 3.0 + 2 * min(queries, cutoff) / 20.0
        assert sparse_vector.laplace(3.0, 20.0, queries, cutoff, huge)[0] == pytest.approx(pure, rel=1e-6)
        assert np.all(sparse_vector.laplace(3.0, 20.0, queries, cutoff, ORDERS) < pure)


def test_laplace_noise_shifted():
    """Mironov 2017, Proposition 6, against quadrature."""
    for scale in (0.5, 4.0):
        for order in (1.5, 6.0):
            with mp.workdps(30):
                moment = mp.quad(
                    lambda x, a=order, b=scale: mp.exp(-a * abs(x) / b + (a - 1) * abs(x - 1) / b) / (2 * b),
                    [-mp.inf, 0, 1, mp.inf],
                )
                expected = mp.log(moment) / (order - 1)
            got = sparse_vector.laplace(scale, 1e12, 1, 1, np.array([order]))[0]
            assert got == pytest.approx(float(expected), rel=1e-9)
