"""The worst pair: adjacent, consistent with its counts, and as bad as brute force over all histograms finds."""

import itertools

import numpy as np
import pytest

from patebench.accounting.votes import Votes
from patebench.audit.estimates import least_epsilon
from patebench.audit.worst_pairs import Search
from patebench.mechanisms.base import make_mechanism

DELTA = 1e-5
SETTINGS = [
    ("lnmax", {"gamma": 0.5}),
    ("gnmax", {"sigma": 2.0}),
    ("confident-gnmax", {"threshold": 5.0, "sigma1": 2.0, "sigma2": 2.0}),
]


def every_histogram(teachers, classes):
    return [
        counts
        for counts in itertools.product(range(teachers + 1), repeat=classes)
        if sum(counts) == teachers and list(counts) == sorted(counts, reverse=True)
    ]


def brute_force(mechanism, teachers, classes):
    """Return the largest ε of one query over every pair of adjacent histograms."""
    worst = 0.0
    for counts in every_histogram(teachers, classes):
        for source, target in itertools.permutations(range(classes), 2):
            if counts[source]:
                moved = list(counts)
                moved[source] -= 1
                moved[target] += 1
                p, q = mechanism.log_outcome_probabilities(Votes.from_counts(np.array([counts, moved])))
                ones = np.ones((1, classes + 1), dtype=int)
                ways = least_epsilon(p[None], q[None], ones, DELTA), least_epsilon(q[None], p[None], ones, DELTA)
                worst = max(worst, *(float(way[0]) for way in ways))
    return worst


@pytest.mark.parametrize(("name", "parameters"), SETTINGS)
def test_no_pair_of_a_small_ensemble_is_worse(name, parameters):
    mechanism = make_mechanism(name, parameters)
    search = Search(mechanism, 9, 4, DELTA)
    found = search.worst(1)[0].epsilon(1, DELTA)
    truth = brute_force(mechanism, 9, 4)
    assert found <= truth * (1 + 1e-9)
    assert found >= 0.995 * truth


@pytest.mark.parametrize("queries", [1, 100])
@pytest.mark.parametrize(("name", "parameters"), SETTINGS)
def test_a_pair_is_what_its_counts_say(name, parameters, queries):
    """Two data sets that differ in one row of votes, and outcomes as the mechanism gives them for these votes."""
    mechanism = make_mechanism(name, parameters)
    for pair in Search(mechanism, 12, 5, DELTA).worst(queries):
        here, there = pair.votes(3)
        for votes, counts in ((here, pair.counts), (there, pair.neighbour)):
            np.testing.assert_array_equal(votes.counts, np.tile(counts, (3, 1)))
            np.testing.assert_array_equal(Votes.of(votes.matrix, 5).counts, votes.counts)
        assert np.sum(np.any(here.matrix != there.matrix, axis=1)) == 1
        ones = np.ones((1, 6), dtype=int)
        p, q = (mechanism.log_outcome_probabilities(votes)[:1] for votes in (here, there))
        expected = least_epsilon(p, q, ones, DELTA)[0]
        np.testing.assert_allclose(pair.epsilon(1, DELTA), expected, rtol=1e-9)
        relabelled = pair.shift_classes(2)
        np.testing.assert_array_equal(relabelled.neighbour, np.roll(pair.neighbour, 2))
        assert pair.reversed().reversed().source == pair.source


def test_the_worst_pair_of_many_queries_is_another_one():
    search = Search(make_mechanism("lnmax", {"gamma": 0.5}), 50, 10, DELTA)
    one, many = search.worst(1)[0], search.worst(400)[0]
    assert many.epsilon(1, DELTA) < one.epsilon(1, DELTA)
    assert one.epsilon(400, DELTA) < 0.9 * many.epsilon(400, DELTA)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("lnmax", {"gamma": 0.05}),
        ("gnmax", {"sigma": 40.0}),
    ],
)
def test_within_and_near_the_tightest_bounds(name, parameters):
    mechanism = make_mechanism(name, parameters)
    votes = Votes.from_counts(np.array([[250, 0]]))
    stated = 0.1 if name == "lnmax" else mechanism.bounds(votes, [1], DELTA)[0].epsilon
    assert 0.85 * stated < Search(mechanism, 250, 10, DELTA).worst(1)[0].epsilon(1, DELTA) <= stated


def test_a_count_at_the_threshold_is_found():
    """The pairs that change silence most lie where the largest count crosses the threshold, on either side."""
    mechanism = make_mechanism("confident-gnmax", {"threshold": 37.0, "sigma1": 0.5, "sigma2": 20.0})
    pairs = Search(mechanism, 50, 10, DELTA).most_distinguishable()
    tops = [sorted((pair.counts.max(), pair.neighbour.max())) for pair in pairs]
    assert [36, 37] in tops
    assert [37, 38] in tops


@pytest.mark.parametrize(("teachers", "classes"), [(1, 2), (1, 10), (2, 2), (3, 50)])
def test_small_ensembles(teachers, classes):
    search = Search(make_mechanism("lnmax", {"gamma": 0.1}), teachers, classes, DELTA)
    pair = search.worst(1)[0]
    assert pair.counts.sum() == pair.neighbour.sum() == teachers
    assert pair.neighbour.min() >= 0
    assert 0 < pair.epsilon(1, DELTA) <= 0.2


def test_rare_certain_outcomes_do_not_hide_the_rest():
    """An outcome that identifies D with probability far below δ makes every Rényi curve ∞, but hardly matters."""
    pair = Search(make_mechanism("stable-argmax", {"epsilon": 1.5, "failure": 1e-8}), 50, 10, DELTA).worst(400)[0]
    assert 100 < pair.epsilon(400, DELTA) < 600


def test_a_mechanism_with_state_is_searched_by_its_first_query():
    """Check that compared histograms are not treated as successive queries."""
    mechanism = make_mechanism("stable-svt", {"epsilon": 12.0, "failure": 1e-8, "cutoff": 3})
    pair = Search(mechanism, 30, 4, DELTA).worst(1)[0]
    p, q = (mechanism.log_outcome_probabilities(votes) for votes in pair.votes(1))
    expected = least_epsilon(p, q, np.ones((1, 5), dtype=int), DELTA)[0]
    assert 0 < pair.epsilon(1, DELTA) == pytest.approx(expected, rel=1e-9)
