"""The cost of a label, against all neighbours, a finer search, the exact accountant and the theorem's table."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize
from tests.accounting.exact_reference import probabilities
from tests.accounting.oracles import divergence, histograms, label_probabilities, moved
from tests.accounting.test_sparse_vector import LAPLACE as LAPLACE_NOISE
from tests.accounting.test_sparse_vector import NORMAL

from patebench.accounting import label, rdp
from patebench.accounting.conversion import ORDERS, convert
from patebench.core.bound import Conversion
from patebench.mechanisms.noise import DiscreteGaussian, DiscreteLaplace

DELTA = 1e-5
GAUSSIAN, LAPLACE = "gaussian", "laplace"


def cost(kind, scale, *, discrete=False):
    return label.gaussian(scale, discrete=discrete) if kind == GAUSSIAN else label.laplace(1 / scale, discrete=discrete)


def epsilon(kind, scale, queries, how=Conversion.TIGHT, *, discrete=False):
    made = label.accountant(label.gaussian, scale) if kind == GAUSSIAN else label.accountant(label.laplace, 1 / scale)
    return {b.conversion: b.epsilon for b in (made.discrete if discrete else made).bounds([queries], DELTA)}[how]


@pytest.mark.parametrize("kind", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("scale", [1.3, 3.0, 50.0])
@pytest.mark.parametrize(("teachers", "classes"), [(1, 2), (3, 2), pytest.param(4, 3, marks=pytest.mark.slow)])
def test_no_pair_of_neighbours_differs_by_more(kind, scale, teachers, classes):
    """Both directions: every histogram and every move, its reverse among them."""
    rows = histograms(teachers, classes).tolist()
    with mp.workdps(25):
        chances = {counts: probabilities(kind, scale, counts) for counts in map(tuple, rows)}
        for counts, p in chances.items():
            for q in map(chances.get, moved(counts)):
                for order in (1.001, 1.5, 4.0, 1 + 2 * scale):
                    assert divergence(p, q, order) <= cost(kind, scale).curve(np.array([order]))[0]


# The same supremum by a search with SciPy, in units of the noise.

NODES, WEIGHTS = np.polynomial.legendre.leggauss(120)


def three(kind, u, v):
    """Return P_a, P_b and P_o for arrays u, v, by quadrature over pieces on which the integrand is smooth."""
    f, below, _ = NORMAL if kind == GAUSSIAN else LAPLACE_NOISE

    def wins(u, v):
        reach = 10 if kind == GAUSSIAN else 45
        cuts = np.sort(np.maximum(np.stack([0 * u, u, v, np.maximum(u, v) + reach]), 0), axis=0)
        middle, half = (cuts[1:] + cuts[:-1]) / 2, (cuts[1:] - cuts[:-1]) / 2
        x = middle[..., None] + half[..., None] * NODES
        return np.sum(half[..., None] * WEIGHTS * f(x - u[..., None]) * below(x - v[..., None]), axis=(0, -1))

    return np.stack([wins(u, v), wins(v, u), below(-u) * below(-v)])


def rate(kind, s, order, u, v):
    """Return D_α/(α s²) for the order α, with a formula in which no terms cancel."""
    p, q = three(kind, u, v), three(kind, u - s, v + s)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        r = np.where((p > 1e-200) & (q > 1e-200), np.log(p / q), 0.0)
        total = np.sum(p * (np.expm1((order - 1) * r) + (order - 1) * np.expm1(-r)), axis=0)
    return np.log1p(np.where(np.isfinite(total), total, 0.0)) / (order - 1) / (order * s * s)


def searched(kind, s, order):
    tilt = (order - 1) * s
    t, w = np.meshgrid(np.arange(-2.2 * tilt - 1.5, 1.5, 0.2), np.append(np.arange(-2, 6, 0.4), [9.0, 14.0]))
    u, v = (w + t) / 2, (w - t) / 2
    values = rate(kind, s, order, u, v)
    best = np.unravel_index(values.argmax(), values.shape)
    found = minimize(
        lambda at: -rate(kind, s, order, np.array([at[0]]), np.array([at[1]]))[0],
        [u[best], v[best]],
        method="Nelder-Mead",
        options={"xatol": 1e-4, "fatol": 1e-9},
    )
    return max(values.max(), -found.fun)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("scale", [1.0, 4.0, 40.0, 1000.0])
@pytest.mark.parametrize("tilt", [0.02, 0.3, 1.0, 2.5])
def test_a_search_finds_nothing_above_and_little_below(kind, scale, tilt):
    """Certified to 2.5%, about 1.3% of ε at the best order; with a vote of a whole scale, to 7%."""
    at = int(np.argmin(np.abs(ORDERS - 1 - tilt * scale)))
    order = ORDERS[at]
    found = searched(kind, 1 / scale, order) * order / scale**2
    certified = cost(kind, scale).curve(ORDERS[at : at + 1])[0]
    assert found * (1 - 1e-9) <= certified <= found * (1.07 if scale == 1 else 1.025)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "scale", "queries", "searched_for", "counts"),
    [
        (GAUSSIAN, 40.0, 286, 2.07, 2.435),
        (GAUSSIAN, 50.0, 100, 0.912, 1.061),
        (LAPLACE, 20.0, 100, 2.48, 4.307),
        (LAPLACE, 20.0, 1000, 9.51, 17.79),
    ],
)
def test_the_values_of_the_theorem(kind, scale, queries, searched_for, counts):
    for discrete in (False, True):
        found = epsilon(kind, scale, queries, discrete=discrete)
        assert 0.99 * searched_for < found < 1.01 * searched_for + 0.005
        assert found < 0.87 * counts


# Discrete noise: all integers by enumeration.


@pytest.mark.slow
@pytest.mark.parametrize("kind", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("scale", [1.0, 1.7, 4.0])
def test_integers_whichever_class_wins_ties(kind, scale):
    """All histograms of 3 votes on 2 and 3 classes and all moves, and so the three in every order."""
    curve = cost(kind, scale, discrete=True).curve
    noise = DiscreteGaussian(scale) if kind == GAUSSIAN else DiscreteLaplace(scale)
    with mp.workdps(25):
        for counts in map(tuple, [*histograms(3, 2).tolist(), *histograms(3, 3).tolist()]):
            for neighbour in moved(counts):
                p, q = (label_probabilities(noise, each) for each in (counts, neighbour))
                for order in (1.001, 1.5, 4.0, 1 + 2 * scale):
                    assert divergence(p, q, order) <= curve(np.array([order]))[0]


def integer_table(kind, scale, tie, width):
    """Compute P_a by plain sums, for u, v = −width … width."""
    x = np.arange(-5 * width, 5 * width + 1)
    weight = np.exp(-(x**2) / (2 * scale**2) if kind == GAUSSIAN else -np.abs(x) / scale)
    pmf = weight / weight.sum()
    cdf = np.cumsum(pmf)
    at = np.arange(-width, width + 1)
    scores = np.arange(0, 4 * width)

    def look(table, z):
        return table[np.clip(z + 5 * width, 0, 10 * width)]

    return look(pmf, scores - at[:, None]) @ look(cdf, scores[:, None] - at - tie)


@pytest.mark.parametrize(
    ("kind", "scale", "most"), [(GAUSSIAN, 2.0, 1.002), (GAUSSIAN, 9.0, 1.002), (LAPLACE, 9.0, 1.01)]
)
@pytest.mark.parametrize("tilt", [0.05, 0.5, 1.5])
def test_integers_cost_what_the_largest_of_all_pairs_does(kind, scale, most, tilt):
    """The supremum itself, over all integers near enough, is found from above."""
    at = int(np.argmin(np.abs(ORDERS - 1 - tilt * scale)))
    order, width, worst = ORDERS[at], math.ceil(6 * scale), 0.0
    for tie in (0, 1):
        first = integer_table(kind, scale, tie, width)
        second = integer_table(kind, scale, 1 - tie, width).T
        p = np.stack([first, second, 1 - first - second])
        p, q = p[:, 1:, :-1], p[:, :-1, 1:]
        with np.errstate(all="ignore"):
            total = np.nansum(np.where((p > 1e-13) & (q > 1e-13), p * (p / q) ** (order - 1), p), axis=0)
        worst = max(worst, float(np.log(total.max()) / (order - 1)))
    found = cost(kind, scale, discrete=True).curve(ORDERS[at : at + 1])[0]
    assert worst * (1 - 1e-6) <= found <= most * worst


# Curves, and the ends of the range.


@pytest.mark.slow
@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("kind", [GAUSSIAN, LAPLACE])
def test_curves_rise_and_between_known_orders_lie_on_chords_at_most(kind, discrete):
    of = cost(kind, 12.0, discrete=discrete)
    orders = 1 + np.geomspace(0.01, 1e6, 60)
    curve = of.curve(orders)
    assert np.all(np.diff(curve) >= 0)
    assert np.all(curve <= of.counts(orders))
    between = math.sqrt((ORDERS[40] - 1) * (ORDERS[41] - 1)) * 1.01 + 1
    found = of.curve(np.array([ORDERS[40], between, ORDERS[41]]))
    assert found[0] < found[1] < found[2]
    assert found[1] < 1.01 * searched(kind, 1 / 12, between) * between / 144 * 1.03


@pytest.mark.parametrize("discrete", [False, True])
def test_ends_of_the_range(discrete):
    orders = np.array([1.001, 2.0, 1e5, 1e9])
    assert np.all(label.gaussian(0.0, discrete=discrete).curve(orders) == np.inf)
    assert epsilon(GAUSSIAN, 0.0, 3, discrete=discrete) == math.inf
    for scale in (1e-8, 0.3, 1e15):
        for kind in (GAUSSIAN, LAPLACE):
            curve = cost(kind, scale, discrete=discrete).curve(orders)
            counts = rdp.gaussian(scale, orders) if kind == GAUSSIAN else rdp.laplace(1 / scale, orders)
            assert np.all(curve > 0)
            assert np.all(curve <= counts)
    assert label.gaussian(1e15).curve(np.array([2.0]))[0] == pytest.approx(0.65 * 2e-30, rel=0.02)
    assert 2 / math.pi <= label.gaussian(1e4).curve(np.array([2.0]))[0] / 2e-8 < 1.025 * 2 / math.pi, "two classes"
    assert np.all(label.gaussian(math.inf).curve(orders) >= 0)


@pytest.mark.parametrize("kind", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("queries", [1, 3, 40, 5000])
@pytest.mark.parametrize("how", [Conversion.CLASSIC, Conversion.TIGHT])
def test_the_order_is_the_best_of_all(kind, queries, how):
    orders = 1 + np.geomspace(0.01, 1e6, 129)
    best = convert(how, orders, queries * cost(kind, 20.0).curve(orders), DELTA).min()
    assert best * 0.995 <= epsilon(kind, 20.0, queries, how) <= best * (1 + 1e-12)
