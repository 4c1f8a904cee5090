"""The worst-case cost of a gap, against the divergence of all neighbours of all small histograms (sums in mpmath)."""

import mpmath as mp
import numpy as np
import pytest
from tests.accounting.oracles import divergence, histograms, label_probabilities, moved, p_value

from patebench.core.entropy import Entropy
from patebench.core.errors import PatebenchError
from patebench.mechanisms.gap_divergence import gap_divergence
from patebench.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, log_integer_argmax_probabilities

ORDERS = [1.5, 3.0, 12.0]
NOISES = [
    DiscreteGaussian(0.6),
    DiscreteGaussian(1.5),
    DiscreteGaussian(4.0),
    DiscreteLaplace(0.5),
    DiscreteLaplace(2.0),
]


def largest(noise, teachers, classes):
    """Return the largest divergence over all histograms with a gap of γ or more, per order and γ."""
    label = {row: label_probabilities(noise, row) for row in map(tuple, histograms(teachers, classes).tolist())}
    found = np.zeros((len(ORDERS), teachers + 1))
    for row in label:
        for neighbour in moved(row):
            for one, other in ((row, neighbour), (neighbour, row)):
                with mp.workdps(50):
                    each = [float(divergence(label[one], label[other], order)) for order in ORDERS]
                second, first = sorted(row)[-2:]
                found[:, first - second] = np.maximum(found[:, first - second], each)
    return np.maximum.accumulate(found[:, ::-1], axis=1)[:, ::-1]


@pytest.mark.slow
@pytest.mark.parametrize(("teachers", "classes"), [(1, 2), (6, 2), (5, 3), (3, 4)])
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_nothing_smaller_is_said_than_any_histogram_costs(noise, teachers, classes):
    exact, stated = largest(noise, teachers, classes), gap_divergence(noise, ORDERS, teachers, classes)
    assert np.all(exact > 0)
    assert np.all(stated >= exact)
    assert np.all(np.diff(stated, axis=1) <= 0)
    if classes == 2:
        there_are = slice(teachers % 2, None, 2)
        assert np.all(stated[:, there_are] <= exact[:, there_are] * (1 + 1e-6) + 1e-12), "two classes: nothing is lost"


@pytest.mark.slow
def test_a_gap_that_is_one_too_large_would_be_found():
    for noise in NOISES[:2]:
        exact, stated = largest(noise, 6, 2), gap_divergence(noise, ORDERS, 6, 2)
        assert np.any(stated[:, 1:] < exact[:, :-1] * (1 - 1e-3))


@pytest.mark.parametrize(("noise", "order"), [(DiscreteGaussian(40.0), 20.0), (DiscreteLaplace(20.0), 8.0)], ids=str)
def test_for_many_teachers_it_is_little_above_the_worst_histogram_that_is_known(noise, order):
    """All other classes tied at the gap, behind the first class or the last."""
    above = 1.12 if isinstance(noise, DiscreteGaussian) else 1.6
    teachers, classes = 250, 10
    (stated,) = gap_divergence(noise, [order], teachers, classes)
    known = noise.probabilities(teachers)
    for space in (100, 150, 200, 240):
        worst = 0.0
        for first in (0, classes - 1):
            counts = np.full(classes, -space)
            counts[first] = 0
            for loses, gains in ((first, 4), (4, first), (4, 5)):
                neighbour = counts.copy()
                neighbour[loses], neighbour[gains] = neighbour[loses] - 1, neighbour[gains] + 1
                p, q = log_integer_argmax_probabilities(np.stack([counts, neighbour]), known)
                ways = [np.log(np.sum(np.exp(order * a + (1 - order) * b))) / (order - 1) for a, b in ((p, q), (q, p))]
                worst = max(worst, *ways)
        assert worst * (1 - 1e-8) <= stated[space] <= above * worst


@pytest.mark.parametrize("noise", [DiscreteGaussian(0.05), DiscreteGaussian(2.0), DiscreteLaplace(0.01)], ids=str)
def test_extremes_stay_bounds(noise):
    """Little noise and high orders, where moments overflow; many more teachers than noise."""
    orders = [1.01, 30.0, 1e4]
    stated = gap_divergence(noise, orders, 250, 3)
    assert np.all(np.isfinite(stated))
    assert np.all(stated > 0)
    assert np.all(stated <= noise.divergence(np.array(orders))[:, None] * (1 + 1e-12))
    assert np.all(np.diff(stated, axis=1) <= 0)


def test_too_large_a_table_is_one_line():
    with pytest.raises(PatebenchError, match="use fewer teachers, or less noise") as fault:
        gap_divergence(DiscreteGaussian(1e5), [2.0], 1000, 10)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_draws_follow_the_weights(noise):
    for source in (np.random.default_rng(3), Entropy()):
        drawn = noise.draw((20_000,), source)
        assert drawn.dtype == np.int64
        z = np.arange(-60, 61)
        expected = 20_000 * np.exp(noise.log_weights(z) - noise.log_normaliser())
        assert p_value([np.sum(drawn == each) for each in z], expected) > 1e-6
