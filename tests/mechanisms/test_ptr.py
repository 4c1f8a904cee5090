"""Propose-test-release of noisy labels: every transcript on every adjacent pair of small worlds, and planted faults."""

import itertools
import math

import numpy as np
import pytest
from tests.accounting.oracles import histograms, hockey_stick, label_probabilities, moved, p_value, renyi

from patebench.accounting.propose_test_release import Decision, steps
from patebench.accounting.votes import Votes, gaps
from patebench.core.bound import Conversion, Kind
from patebench.core.entropy import Entropy
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import NO_ANSWER
from patebench.mechanisms.ptr import PtrGNMax, PtrLNMax, suggested

#: A mechanism, teachers, classes and queries: k is 0 on some votes and 1 on others, and 2 where that can be.
WORLDS = [
    (PtrGNMax(order=1.5, cost=0.45, epsilon=3.7, failure=0.1, sigma=1.0), 6, 2, 1),
    (PtrGNMax(order=1.5, cost=1.03, epsilon=4.0, failure=0.1, sigma=1.0), 6, 3, 1),
    (PtrGNMax(order=1.5, cost=1.3, epsilon=4.6, failure=0.1, sigma=1.0), 6, 2, 2),
    (PtrLNMax(order=2.0, cost=4.3, epsilon=7.0, failure=0.05, gamma=2.0), 4, 3, 2),
    (PtrLNMax(order=2.0, cost=5.7, epsilon=8.0, failure=0.05, gamma=2.0), 5, 2, 3),
    (PtrLNMax(order=2.0, cost=2.0, epsilon=5.0, failure=0.05, gamma=2.0), 6, 2, 2),
    (PtrLNMax(order=3.0, cost=2.3, epsilon=4.5, failure=0.05, gamma=2.0), 6, 3, 1),
]


class World:
    """All data sets with the given numbers of teachers, classes and queries, and the release distribution of each."""

    def __init__(self, mechanism, teachers, classes, queries):
        self.mechanism = mechanism
        label = {
            row: np.array(label_probabilities(mechanism.noise, row), float)
            for row in map(tuple, histograms(teachers, classes).tolist())
        }
        self.around = {row: [row, *moved(row)] for row in label}
        self.k, self.seen = {}, {}
        for data in itertools.product(label, repeat=queries):
            votes = Votes.from_counts(np.array(data))
            self.k[data], p = mechanism.steps(votes), mechanism.pass_probability(votes)
            transcripts = label[data[0]]
            for row in data[1:]:
                transcripts = np.multiply.outer(transcripts, label[row]).ravel()
            self.seen[data] = np.append(p * transcripts, 1 - p)

    def pairs(self):
        """Yield each data set's distribution, those of its neighbours (neighbours, transcripts), and k of both."""
        for data in self.seen:
            near = [n for n in itertools.product(*(self.around[row] for row in data)) if n != data]
            yield self.seen[data], np.array([self.seen[n] for n in near]), self.k[data], [self.k[n] for n in near]

    def worst_delta(self):
        """Return the largest δ(ε) at the ε of the mechanism."""
        return max(hockey_stick(p, q, self.mechanism.epsilon).max() for p, q, *_ in self.pairs())

    def worst_divergence(self):
        """Return the largest D_α over pairs not both at k = 0; every pair comes twice, so in both directions."""
        worst = [0.0]
        with np.errstate(divide="ignore"):
            for p, q, k, near in self.pairs():
                q = q[[k != 0 or other != 0 for other in near]]
                worst.extend(renyi(np.log(p), np.log(q), [self.mechanism.order])[:, 0])
        return max(worst)


def sizes(world):
    mechanism, *rest = world
    return f"{mechanism}-{'-'.join(map(str, rest))}"


@pytest.mark.slow
@pytest.mark.parametrize("setting", WORLDS, ids=sizes)
def test_all_that_is_seen_is_as_private_as_stated(setting):
    world, mechanism = World(*setting), setting[0]
    assert {0, 1} <= set(world.k.values())
    assert world.worst_delta() <= mechanism.failure
    total = world.worst_divergence()
    assert 0.55 * mechanism.total < total <= mechanism.total * (1 + 1e-12)
    both_bad = [
        abs(p[-1] - q[:, -1][np.array(near) == 0]).max() for p, q, k, near in world.pairs() if k == 0 and 0 in near
    ]
    assert max(both_bad) <= mechanism.failure


@pytest.mark.slow
@pytest.mark.parametrize("setting", WORLDS[:4:3] + WORLDS[5:6], ids=sizes)
def test_bounds_on_given_votes_cover_all_their_neighbours(setting):
    world, mechanism = World(*setting), setting[0]
    for (data, p), (_, q, *_) in zip(list(world.seen.items())[::17], list(world.pairs())[::17], strict=True):
        votes = Votes.from_counts(np.array(data))
        (accountant,) = (each for each in mechanism.accountants(votes) if each.kind is Kind.DATA_DEPENDENT)
        orders = np.array([1.5, 4.0, 10.0])
        (stated,) = accountant.totals([len(data)], orders)
        for order, most in zip(orders, stated, strict=True):
            ways = renyi(np.log(p), np.log(q), [order]), renyi(np.log(q), np.log(p), [order])
            assert np.max(ways) <= most * (1 + 1e-9)


# Planted faults, each in the mechanism that is otherwise the sound one.


def cost_of(mechanism, votes):
    return mechanism.gap_cost([mechanism.order], votes.teachers, votes.classes)[0]


def one_for_two(self, votes):
    cost, gap = cost_of(self, votes), gaps(votes.counts)
    return next((k for k in range(votes.teachers + 2) if cost[np.maximum(gap - k, 0)].sum() > self.cost), None)


def larger_budget(self, votes):
    return steps(gaps(votes.counts), cost_of(self, votes), 3 * self.cost)


def gap_off_by_two(self, votes):
    return steps(np.minimum(gaps(votes.counts) + 2, votes.teachers), cost_of(self, votes), self.cost)


def larger_failure(self):
    return Decision(self.order, self.cost, self.total, 2 * self.failure)


LITTLE, MUCH = {"cost": 1.0, "epsilon": 3.0, "gamma": 2.0}, {"cost": 0.3, "epsilon": 2.5, "gamma": 20.0}
FAULTS = {
    "every step lowers the gaps by 1, although one teacher changes them by 2": ("steps", one_for_two, 6, LITTLE),
    "labels may cost three times what the probabilities assume": ("steps", larger_budget, 6, LITTLE),
    "gaps are overestimated by one teacher's vote": ("steps", gap_off_by_two, 6, LITTLE),
    "the failure probability is not the stated one": ("decision", property(larger_failure), 5, MUCH),
    "labels are released at any cost": ("pass_probability", lambda self, votes: 1.0, 5, MUCH),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault):
    name, wrong, teachers, parameters = FAULTS[fault]
    parameters = {"order": 2.0, "failure": 0.05, **parameters}
    faulty = World(type("Faulty", (PtrLNMax,), {name: wrong})(**parameters), teachers, 2, 1)
    sound = World(PtrLNMax(**parameters), teachers, 2, 1)
    total, delta = sound.mechanism.total, parameters["failure"]
    assert sound.worst_divergence() <= total * (1 + 1e-12)
    assert sound.worst_delta() <= delta
    assert faulty.worst_divergence() > 1.001 * total or faulty.worst_delta() > 1.001 * delta


# What is released.


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [WORLDS[2][0], PtrLNMax(2.0, 1.0, 5.0, 0.05, 2.0)], ids=str)
@pytest.mark.parametrize("source", [np.random.default_rng(1), Entropy()], ids=["seeded", "release"])
def test_releases_follow_their_distribution(mechanism, source):
    votes, runs = Votes.from_counts(np.array([[6, 0], [0, 6]])), 1500
    p = mechanism.pass_probability(votes)
    assert 0.05 < p < 0.95
    seen = [tuple(mechanism.release(votes, source).tolist()) for _ in range(runs)]
    one, other = (np.array(label_probabilities(mechanism.noise, tuple(row)), float) for row in votes.counts.tolist())
    expected = {(a, b): p * one[a] * other[b] for a in (0, 1) for b in (0, 1)} | {(NO_ANSWER, NO_ANSWER): 1 - p}
    assert set(seen) <= set(expected), "all queries are answered or none"
    assert p_value([seen.count(labels) for labels in expected], runs * np.array([*expected.values()]), least=5) > 1e-6


@pytest.mark.parametrize("mechanism", [WORLDS[1][0], WORLDS[6][0]], ids=str)
def test_marginals_are_those_of_the_release(mechanism):
    for counts in ([[5, 1, 0]], [[2, 2, 2]], [[0, 6, 0], [1, 0, 5]]):
        votes = Votes.from_counts(np.array(counts))
        got, p = np.exp(mechanism.log_outcome_probabilities(votes)), mechanism.pass_probability(votes)
        for row, shown in zip(counts, got, strict=True):
            expected = [p * float(each) for each in label_probabilities(mechanism.noise, tuple(row))]
            np.testing.assert_allclose(shown, [*expected, 1 - p], rtol=1e-9, atol=1e-12)


def test_the_worst_case_is_epsilon_for_any_number_of_queries_and_may_be_published():
    votes = Votes.from_counts(np.tile([40, 6, 4], (300, 1)))
    mechanism = PtrGNMax(order=12.0, cost=0.3, epsilon=1.5, failure=1e-6, sigma=8.0)
    for discrete in (False, True):
        found = [b for b in mechanism.bounds(votes, [1, 300], 1e-6, discrete=discrete) if b.kind is Kind.WORST_CASE]
        tight = [bound.epsilon for bound in found if bound.conversion is Conversion.TIGHT]
        assert tight == pytest.approx([1.5, 1.5], rel=1e-12)
        assert max(tight) <= 1.5
        assert all(bound.publishable for bound in found)
    assert all(bound.kind is Kind.WORST_CASE for bound in mechanism.bounds(votes, [300], 1e-6, discrete=True))
    assert all(math.isinf(b.epsilon) for b in mechanism.bounds(votes, [300], 0.9e-6) if b.kind is Kind.WORST_CASE)
    assert mechanism.bounds(votes, [300], 1e-6, adaptive=True) == []


def test_votes_that_can_not_cost_too_much_are_always_released():
    mechanism = PtrGNMax(order=2.0, cost=1.0, epsilon=40.0, failure=1e-6, sigma=100.0)
    for row in ([5, 5, 0], [10, 0, 0]):
        votes = Votes.from_counts(np.tile(row, (20, 1)))
        assert mechanism.steps(votes) is None
        assert np.all(mechanism.release(votes, np.random.default_rng(0)) != NO_ANSWER)


@pytest.mark.slow
def test_what_public_votes_suggest_releases_them():
    rng = np.random.default_rng(0)
    disagree = np.minimum(rng.gamma(0.1, 0.45, size=60), 0.8)
    votes = Votes.from_counts(np.stack([rng.multinomial(50, [1 - x, 0.7 * x, 0.3 * x]) for x in disagree]))
    plain = suggested(PtrGNMax, votes, 1e-5, headroom=1.0, sigma=6.0)
    assert 0.98 <= plain.pass_probability(votes) < 0.9999
    roomy = suggested(PtrGNMax, votes, 1e-5, headroom=1.5, sigma=6.0)
    assert roomy.pass_probability(votes) >= plain.pass_probability(votes)
    assert roomy.epsilon > plain.epsilon
    exact = min(b.epsilon for b in plain.bounds(votes, [60], 1e-5) if b.kind is Kind.DATA_DEPENDENT)
    assert exact < plain.epsilon
    with pytest.raises(PatebenchError, match=r"headroom = 0\.5 is out of range"):
        suggested(PtrGNMax, votes, 1e-5, headroom=0.5, sigma=6.0)
