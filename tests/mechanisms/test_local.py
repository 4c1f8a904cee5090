"""Local mechanisms: reports, joint labels, and the cost of each teacher."""

import math

import numpy as np
import pytest
from scipy.stats import binom
from tests.accounting.oracles import hockey_stick, p_value

from patebench.accounting.votes import Votes
from patebench.mechanisms.base import NO_ANSWER
from patebench.mechanisms.local_mechanisms import RandomisedResponse, TruncatedGeometric

LOCAL = [TruncatedGeometric, RandomisedResponse]
DELTA = 1e-5


def local(kind, epsilon=1.0, unbiased=0, participation=1.0, spread=1.0):
    return kind(epsilon, unbiased, participation, spread)


@pytest.fixture
def votes():
    return Votes.of(np.random.default_rng(0).integers(0, 4, size=(30, 200)), classes=4)


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("vote", [0, 1, 3])
def test_what_is_sent_follows_the_channel(kind, vote):
    mechanism, draws = local(kind, 1.5), 100_000
    votes = Votes.of(np.full((1, draws), vote), classes=4)
    observed = np.bincount(mechanism.perturbed(votes, np.random.default_rng(3))[0], minlength=4)
    matrix = mechanism.channel(1.5, 4).matrix
    assert p_value(observed, draws * matrix[vote]) > 1e-4
    assert p_value(observed, draws * matrix[(vote + 1) % 4]) < 1e-6, "the test must notice what is not so"


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("participation", [1.0, 0.01])
def test_published_labels_are_the_plurality_of_what_is_sent(kind, participation, votes):
    mechanism = local(kind, participation=participation)
    labels = mechanism.release(votes, np.random.default_rng(5))
    reports = mechanism.perturbed(votes, np.random.default_rng(5))
    counts = np.stack([(reports == label).sum(axis=0) for label in range(4)])
    assert (participation == 1) == counts.any(axis=0).all(), "of many queries, nobody is asked"
    np.testing.assert_array_equal(labels, np.where(counts.any(axis=0), counts.argmax(axis=0), NO_ANSWER))


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("spread", [1.0, 5.0])
def test_estimates_are_unbiased(kind, spread):
    """Their mean over many queries with the same votes is the weighted share of each class."""
    column = np.repeat([0, 1, 2, 3], [2, 5, 1, 4])
    votes = Votes.of(np.tile(column[:, None], (1, 40_000)), classes=4)
    mechanism = local(kind, 4.0, unbiased=1, spread=spread)
    found = mechanism.estimates(votes, mechanism.perturbed(votes, np.random.default_rng(2)))
    weights = np.array([1 / mechanism.channel(epsilon, 4).variance for epsilon in mechanism.personal(12)])
    expected = np.bincount(column, weights, minlength=4)
    error = found.std(axis=0) / math.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - expected) < 5 * error)
    plain = local(kind, 4.0, spread=spread)
    biased = plain.estimates(votes, plain.perturbed(votes, np.random.default_rng(2)))
    assert np.any(np.abs(biased.mean(axis=0) - np.bincount(column, minlength=4)) > 20 * error)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.3, 1 / 3, 0.001])
@pytest.mark.parametrize("teachers", [1, 7, 250])
def test_teachers_take_part_in_their_share_and_no_more(teachers, share):
    mechanism = local(RandomisedResponse, participation=share)
    taking_part = mechanism.participants(teachers, 1000)
    assert taking_part.shape == (teachers, 1000)
    for T in (1, 10, 999, 1000):
        times = taking_part[:, :T].sum(axis=1)
        np.testing.assert_array_equal(times, mechanism.asked(teachers, T))
        assert times.max() <= mechanism.most_participation(T) <= math.ceil(T * share + 1e-9)
        assert times.min() >= math.floor(T * share - 1e-9)
    sizes = taking_part.sum(axis=0)
    assert np.abs(sizes - teachers * share).max() <= 3, "sets are of about one size"


def test_who_takes_part_depends_on_no_vote_and_no_draw():
    mechanism = local(RandomisedResponse, participation=0.4)
    sent = [
        mechanism.perturbed(
            Votes.of(np.random.default_rng(i).integers(0, 4, size=(20, 50)), 4), np.random.default_rng(i)
        )
        for i in (1, 2)
    ]
    np.testing.assert_array_equal(sent[0] == NO_ANSWER, sent[1] == NO_ANSWER)


def test_personal_epsilons_are_spread_evenly_on_a_logarithmic_scale():
    personal = local(RandomisedResponse, 2.0, spread=16.0).personal(5)
    np.testing.assert_allclose(personal, [2, 1, 0.5, 0.25, 0.125])
    np.testing.assert_array_equal(local(RandomisedResponse, 2.0, spread=16.0).personal(1), [2])


@pytest.mark.parametrize("kind", LOCAL)
def test_neighbours_are_the_reports_of_one_teacher(kind):
    mechanism = local(kind, 1.2, spread=9.0)
    matrix = mechanism.channel(1.2, 4).matrix
    (pairs, again) = mechanism.neighbours(np.array([[9, 1, 0, 0], [5, 5, 0, 0]]))
    assert set(again.histogram) == {1}
    assert sorted(zip(pairs.loses, pairs.gains, strict=True)) == [(a, b) for a in range(4) for b in range(4) if a != b]
    np.testing.assert_allclose(np.exp(pairs.log_p), matrix[pairs.loses])
    np.testing.assert_allclose(np.exp(pairs.log_p_neighbour), matrix[pairs.gains])
    assert np.all(pairs.multiplicity == 1)


@pytest.mark.parametrize("kind", LOCAL)
def test_bounds_hold_for_all_votes_and_follow_the_paper(kind, votes):
    mechanism = local(kind, 0.5, participation=0.25, spread=3.0)
    bounds = mechanism.bounds(votes, [10, 200], DELTA)
    assert all(bound.publishable and bound.kind == "worst_case" for bound in bounds)
    found = {(bound.accountant, bound.conversion, bound.queries): bound.epsilon for bound in bounds}
    assert found["basic", "none", 200] == 50 * 0.5, "T_n·ε_n"
    assert found["basic", "none", 10] == 3 * 0.5
    slack = 0.75 if kind is TruncatedGeometric else 1.0
    # The worst votes that are ε-DP: a coin that tells the truth with probability 1/(1 + e^−ε), flipped fifty times.
    here, there = (binom.pmf(np.arange(51), 50, 1 / (1 + np.exp(sign * 0.5 * slack))) for sign in (1, -1))
    pld = found["pld", "none", 200]
    assert hockey_stick(here, there, pld) <= DELTA < hockey_stick(here, there, pld * (1 - 1e-6))
    order = ["basic", "pld", "pld-channel"]
    assert [*sorted(order, key=lambda name: -found[name, "none", 200])] == order
    assert found["pld-channel", "none", 200] <= found["rdp", "tight", 200] <= found["rdp", "classic", 200]
    other = Votes.from_counts(np.tile([[30, 0, 0, 0]], (200, 1)))
    assert [bound.epsilon for bound in mechanism.bounds(other, [10, 200], DELTA)] == [b.epsilon for b in bounds]


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("limit", [1e-3, 0.1])
def test_composed_bounds_are_the_privacy_of_one_teachers_reports(kind, classes, limit):
    """Every sequence of three reports, for votes that always change from a to b: the exact δ(ε), by enumeration."""
    mechanism, votes = local(kind, 0.8), Votes.from_counts(np.eye(1, classes, dtype=int).repeat(3, axis=0))
    matrix = mechanism.channel(0.8, classes).matrix
    found = {b.accountant: b.epsilon for b in mechanism.bounds(votes, [3], limit) if b.conversion != "classic"}

    def delta(epsilon):
        sequences = [
            (np.einsum("i,j,k", *[matrix[a]] * 3).ravel(), np.einsum("i,j,k", *[matrix[b]] * 3).ravel())
            for a in range(classes)
            for b in range(classes)
        ]
        return max(hockey_stick(p, q, epsilon) for p, q in sequences)

    assert all(delta(epsilon) <= limit for epsilon in found.values())
    assert delta(found["pld-channel"] * (1 - 1e-6)) > limit, "and that by lattice composition is the least"


@pytest.mark.parametrize("kind", LOCAL)
def test_what_single_teachers_pay(kind, votes):
    mechanism = local(kind, 0.5, participation=0.3, spread=10.0)
    (few, many) = mechanism.teacher_costs(votes, [10, 200], DELTA)
    assert (few["queries"], many["queries"], many["delta"]) == (10, 200, DELTA)
    basic = np.sort(mechanism.asked(30, 200) * mechanism.personal(30))
    which = ("least", "median", "most")
    assert [many[f"basic_{each}"] for each in which] == [basic[0], basic[15], basic[29]]
    assert all(0 < many[f"composed_{each}"] <= many[f"basic_{each}"] for each in which)
    worst = {b.accountant: b.epsilon for b in mechanism.bounds(votes, [200], DELTA)}
    assert many["composed_most"] <= worst["pld-channel"]
    assert many["asked_most"] * many["epsilon_most"] == many["basic_most"] == 60 * 0.5
    assert local(kind, math.inf).teacher_costs(votes, [10], DELTA)[0]["composed_least"] == "inf"
