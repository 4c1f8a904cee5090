"""Test Private-kNN: its cost by numerical integration, its steps in a small world, and planted faults."""

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import binom, norm
from tests.baselines.test_dpsgd import Faulty, draw_one_size, draw_repeated

from patebench.accounting.subsampled_gaussian import SubsampledGaussian, epsilon_together
from patebench.audit.trained_models import audit_step
from patebench.audit.verdict import Verdict
from patebench.baselines import knn_labels as labelling
from patebench.baselines.knn_accounting import ANSWER, TEST, KNNSettings, claimed, sound
from patebench.baselines.knn_labels import NearestVotes
from patebench.baselines.noisy_steps import NoisySteps, PoissonSampler
from patebench.core.bound import Adjacency, Kind
from patebench.core.errors import PatebenchError

DELTA = 1e-5
#: What the authors' code has for MNIST.
MNIST = KNNSettings(rate=0.15, neighbours=300, threshold=180, sigma1=75, sigma2=25, queries=1000)
CLASSES = 3


def _rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# The cost.


def test_dp_accounting_finds_the_same_divergence() -> None:
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    events = [
        dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.15, dp_event.GaussianDpEvent(noise)), times)
        for noise, times in ((75.0, 1000), (25 / math.sqrt(2), 735))
    ]
    found = claimed(MNIST, 735, DELTA)
    accountant = RdpAccountant(orders=[found.order])
    for event in events:
        accountant.compose(event)
    (divergence,) = accountant._rdp
    assert found.epsilon == pytest.approx(divergence + math.log(1 / DELTA) / (found.order - 1), rel=1e-6)
    many = RdpAccountant(orders=list(range(2, 200)))
    for event in events:
        many.compose(event)
    proven = sound(replace(MNIST, answers=735), DELTA)
    assert proven.epsilon < many.get_epsilon(DELTA) < found.epsilon, "a Rényi accountant is never tighter"


def test_the_setting_that_was_published() -> None:
    """It prints 0.47; its own accountant says 1.18, and with the noise that its code takes from SVHN's file 6.44."""
    said, proven = claimed(MNIST, 735, DELTA), sound(replace(MNIST, answers=735), DELTA)
    assert said.epsilon == pytest.approx(1.18, abs=0.005)
    assert claimed(replace(MNIST, sigma1=85, sigma2=5), 735, DELTA).epsilon == pytest.approx(6.44, abs=0.005)
    assert proven.epsilon == pytest.approx(0.886, abs=0.002)
    assert sound(MNIST, DELTA).epsilon == pytest.approx(1.037, abs=0.002)
    assert (proven.kind, said.kind) == (Kind.WORST_CASE, Kind.CLAIMED)
    assert (proven.queries, said.queries) == (1735, 1000)
    for bound in (proven, said):
        assert (bound.adjacency, bound.publishable) == (Adjacency.ADD_OR_REMOVE_RECORD, False)
    for without in ({"sigma1": 0.0}, {"sigma2": 0.0}):
        noiseless = replace(MNIST, **without)
        assert sound(noiseless, DELTA).epsilon == claimed(noiseless, 5, DELTA).epsilon == math.inf


def test_every_answer_that_may_be_given_is_paid_for() -> None:
    few, done = replace(MNIST, answers=10), (MNIST.tests, MNIST.answered(3))
    assert sound(few, DELTA, done) == sound(few, DELTA)
    assert sound(few, DELTA).epsilon < sound(replace(MNIST, answers=11), DELTA).epsilon
    assert sound(replace(MNIST, answers=5000), DELTA) == sound(MNIST, DELTA)
    for done in (
        (MNIST.tests, MNIST.answered(11)),  # the cap was not kept
        (replace(MNIST.tests, steps=1001), MNIST.answered(3)),
        (replace(MNIST.tests, noise=74.0), MNIST.answered(3)),
        (MNIST.tests, replace(MNIST.answered(3), rate=0.2)),
        (MNIST.tests, SubsampledGaussian(25.0, 0.15, 3)),  # as if one record moved counts by 1, and not by √2
    ):
        with pytest.raises(PatebenchError, match="but the bound assumes"):
            sound(few, DELTA, done)


# A small world, exactly: every subset of every data set.


def _world(records: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    return rng.uniform(-0.7, 0.7, (records, 2)), rng.integers(0, CLASSES, records), np.array([[0.1, 0.0], [-0.3, 0.4]])


def _votes(present: tuple[int, ...], neighbours: int) -> NearestVotes:
    x, y, queries = _world(5)
    rows = np.array(present, dtype=int)
    return NearestVotes(x[rows], y[rows], queries, neighbours=neighbours, classes=CLASSES)


def _subsets(votes: NearestVotes, rate: float):
    """Yield each subset of the records (positions), with its probability under Poisson sampling."""
    for chosen in itertools.product([False, True], repeat=len(votes)):
        yield np.flatnonzero(chosen), rate ** sum(chosen) * (1 - rate) ** (len(votes) - sum(chosen))


@cache
def _passed(most: int, settings: KNNSettings) -> float:
    return float(norm.sf((settings.threshold - most) / settings.sigma1))


@cache
def _won(counts: tuple[int, ...], sigma: float) -> np.ndarray:
    """Return Pr[label] (classes,) for `counts`, by numerical integration over the noise on the label's count."""
    z = np.linspace(-10 * sigma, 10 * sigma, 4001)
    differences = z[:, None, None] + np.subtract.outer(np.array(counts), np.array(counts))
    below = norm.cdf(differences / sigma) + np.eye(CLASSES) * (1 - norm.cdf(z / sigma))[:, None, None]
    found: np.ndarray = np.trapezoid(norm.pdf(z, scale=sigma)[:, None] * below.prod(axis=2), z, axis=0)
    return found


def _passes(votes: NearestVotes, query: int, settings: KNNSettings) -> float:
    """Return the probability that `query` passes its test."""
    subsets = _subsets(votes, settings.rate)
    return sum(share * _passed(int(votes.counts(query, chosen).max()), settings) for chosen, share in subsets)


def _answers(votes: NearestVotes, query: int, settings: KNNSettings) -> np.ndarray:
    """Return Pr[label] (classes,) of an answer to `query`."""
    subsets = _subsets(votes, settings.rate)
    found: np.ndarray = sum(share * _won(tuple(votes.counts(query, each)), settings.sigma2) for each, share in subsets)
    return found


def _outcomes(votes: NearestVotes, settings: KNNSettings) -> np.ndarray:
    """Return the probabilities of all outcomes of two queries, of which the first one that passes is answered."""
    passed = [_passes(votes, query, settings) for query in range(2)]
    given = [_answers(votes, query, settings) for query in range(2)]
    none = (1 - passed[0]) * (1 - passed[1])
    first = [passed[0] * share * p for share in (passed[1], 1 - passed[1]) for p in given[0]]
    return np.array([none, *first, *((1 - passed[0]) * passed[1] * given[1])])


def _delta(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def _adjacent(records: int):
    """Yield all pairs of data sets of at most `records` records, of which the first has one more record."""
    for size in range(1, records + 1):
        for larger in itertools.combinations(range(records), size):
            yield from ((larger, tuple(each for each in larger if each != gone)) for gone in larger)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "sigma1", "sigma2", "neighbours"), [(0.5, 0.4, 0.6, 2), (0.8, 0.6, 0.8, 3)])
def test_no_neighbours_are_told_apart_better_than_stated(rate, sigma1, sigma2, neighbours) -> None:
    settings = KNNSettings(
        rate=rate, neighbours=neighbours, threshold=0.8, sigma1=sigma1, sigma2=sigma2, queries=2, answers=1
    )
    everybody = {present for pair in _adjacent(4) for present in pair}
    known = {present: _outcomes(_votes(present, neighbours), settings) for present in everybody}
    assert all(each.sum() == pytest.approx(1, abs=1e-6) for each in known.values())
    largest = 0.0
    for delta in (1e-1, 1e-2, 1e-4):
        stated = sound(settings, delta).epsilon
        for pair in _adjacent(4):
            for one, other in (pair, pair[::-1]):
                assert _delta(known[one], known[other], stated) <= delta
                largest = max(largest, _delta(known[one], known[other], 0.3 * stated) / delta)
    assert largest > 1, "less than a third of what is stated would not do"


def test_one_record_moves_the_largest_count_by_one_and_the_counts_by_the_root_of_two() -> None:
    moved = set()
    for neighbours in (1, 2, 3):
        for larger, smaller in _adjacent(5):
            votes, without = _votes(larger, neighbours), _votes(smaller, neighbours)
            places = {row: place for place, row in enumerate(larger)}
            for query, (chosen, _) in itertools.product(range(2), _subsets(without, 0.5)):
                same = np.array([places[smaller[each]] for each in chosen], dtype=int)
                (gone,) = set(larger) - set(smaller)
                with_it = votes.counts(query, np.sort(np.append(same, places[gone])))
                before = without.counts(query, chosen)
                assert (votes.counts(query, same) == before).all(), "the order of two records depends on no third"
                assert abs(with_it.max() - before.max()) <= TEST
                moved.add(round(float(np.linalg.norm(with_it - before)), 9))
    assert moved == {0.0, 1.0, round(ANSWER, 9)}


def test_of_equally_near_records_the_first_vote() -> None:
    x = np.array([[0.5, 0.0], [0.0, 0.5], [0.0, -0.5], [-0.5, 0.0]])
    votes = NearestVotes(x, np.array([0, 1, 1, 2]), np.zeros((1, 2)), neighbours=2, classes=CLASSES)
    assert votes.counts(0, np.arange(4)).tolist() == [1, 1, 0]
    assert votes.counts(0, np.array([1, 2, 3])).tolist() == [0, 2, 0]
    assert votes.counts(0, np.array([3])).tolist() == [0, 0, 1]
    assert votes.counts(0, np.array([], dtype=int)).tolist() == [0, 0, 0]


# What runs is what is accounted for.


class Unanimous:
    """40 records, of which at most 10 vote on each query, all for the first class."""

    def __len__(self) -> int:
        return 40

    def counts(self, query: int, chosen: np.ndarray) -> np.ndarray:
        return np.array([min(len(chosen), 10), 0, 0])


def test_a_run_takes_the_steps_that_are_stated() -> None:
    settings = KNNSettings(rate=0.5, neighbours=10, threshold=5, sigma1=2, sigma2=1.5, queries=60, answers=20)
    found, spent = labelling.sound_labels(Unanimous(), settings, PoissonSampler(0.5, _rng()), _rng(1))
    assert spent == (settings.tests, settings.answered(20))
    assert (found >= 0).sum() == 20
    assert set(found) == {0, -1}
    assert sound(settings, DELTA, spent).epsilon > 0
    published = labelling.published_labels(Unanimous(), replace(settings, answers=None), _rng())
    assert (published == 0).sum() > 55, "it answers all that pass"
    nobody = replace(settings, threshold=100)
    found, spent = labelling.sound_labels(Unanimous(), nobody, PoissonSampler(0.5, _rng()), _rng(1))
    assert (found == -1).all()
    assert sound(nobody, DELTA, spent) == sound(nobody, DELTA), "that nobody passed is no discount"


@pytest.mark.parametrize(("draw", "words"), [(draw_repeated, "drew a sample twice"), (draw_one_size, "Poisson")])
def test_subsets_that_are_not_poisson_are_refused(draw, words: str) -> None:
    settings = KNNSettings(rate=0.5, neighbours=10, threshold=5, sigma1=2, sigma2=1.5, queries=100)
    with pytest.raises(PatebenchError, match=words):
        labelling.sound_labels(Unanimous(), settings, Faulty(draw, rate=0.5), _rng())


# By sampling: the steps that really run, with one record and without it.


def _step(present: bool, sensitivity: float, noise: float, rng: torch.Generator):
    """Return a function that draws a test or an answer; if `present`, the nearest record is of the second class."""
    x = np.full((60, 1), 0.5)
    y = np.zeros(60, dtype=int)
    if present:
        x, y = np.append(x, [[0.0]], axis=0), np.append(y, 1)
    votes = NearestVotes(x, y, np.zeros((1, 1)), neighbours=4, classes=2)
    steps = NoisySteps(PoissonSampler(0.7, rng), len(votes), noise=noise, clip=sensitivity, rng=rng)
    if sensitivity == TEST:
        return lambda: -float(steps.step(lambda chosen, clip: labelling._largest_count(votes, 0, chosen, clip)))
    along = torch.tensor([-1.0, 1.0]).double() / math.sqrt(2)
    return lambda: float(
        along @ steps.step(lambda chosen, clip: labelling._vote_counts(votes, 0, chosen, clip)).double()
    )


def _both_sides(sensitivity: float, noise: float) -> list[np.ndarray]:
    """Return the draws of 5,000 steps with the record and of 5,000 without it."""
    rng, runs = _rng(3), []
    for present in (True, False):
        step = _step(present, sensitivity, noise, rng)
        runs.append(np.array([step() for _ in range(5000)]))
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("sensitivity", [TEST, ANSWER])
def test_a_step_loses_nearly_what_is_stated(sensitivity: float) -> None:
    found = audit_step(*_both_sides(sensitivity, 0.5), SubsampledGaussian(0.5, 0.7, 1), DELTA)
    assert found.verdict is Verdict.HOLDS
    assert 0.7 * found.stated < found.audited


@pytest.mark.slow
def test_counts_that_are_noised_as_if_one_moved_are_found() -> None:
    """σ₂ is taken for the noise over the sensitivity, which is √2 and not 1."""
    runs = _both_sides(ANSWER, 0.5 / ANSWER)
    assert audit_step(*runs, SubsampledGaussian(0.5, 0.7, 1), DELTA).verdict is Verdict.VIOLATED
    assert audit_step(*runs, SubsampledGaussian(0.5 / ANSWER, 0.7, 1), DELTA).verdict is Verdict.HOLDS


# What does not hold, in the numbers themselves.


def test_a_subset_that_is_used_again_costs_more_than_two_of_its_own() -> None:
    """Given the test, the record is in the subset with another probability. With much noise the two hardly differ."""
    of_each, together = SubsampledGaussian(1 / 1.5, 0.1, 1), SubsampledGaussian(1 / math.sqrt(2 * 1.5**2), 0.1, 1)
    assert together.epsilon(DELTA) > 1.5 * epsilon_together([of_each, of_each], DELTA)
    joint = SubsampledGaussian((1 / 75**2 + 2 / 25**2) ** -0.5, 0.15, 1000)
    assert joint.epsilon(DELTA) == pytest.approx(sound(MNIST, DELTA).epsilon, rel=0.005)


def test_subsets_drawn_with_replacement_cost_more_where_there_is_little_noise() -> None:
    """A record that is drawn j times takes j seats: a lower bound, of a far record that a near one replaces."""
    drawn = [binom.pmf(times, 9000, 1 / 60_000) for times in range(9)]

    def exact(noise: float) -> float:
        def above(place: float) -> float:
            return sum(share * norm.sf((place - times) / noise) for times, share in enumerate(drawn))

        def loss(place: float) -> float:
            ratios = (times * (2 * place - times) / (2 * noise**2) for times in range(9))
            return math.log(sum(share * math.exp(ratio) for share, ratio in zip(drawn, ratios, strict=True)))

        def delta(place: float) -> float:
            return above(place) - math.exp(loss(place)) * norm.sf(place / noise)

        return loss(brentq(lambda place: delta(place) - DELTA, 0, 9 * noise, xtol=1e-10))

    assert exact(1.0) > 2 * SubsampledGaussian(1.0, 0.15, 1).epsilon(DELTA)
    assert exact(3.0) > 1.1 * SubsampledGaussian(3.0, 0.15, 1).epsilon(DELTA)


def test_a_test_that_is_not_charged_is_found() -> None:
    """The exact δ of one test and one answer, of the pair that the proof has, at the ε of the answer alone."""
    test, answer = SubsampledGaussian(1.0, 0.5, 1), SubsampledGaussian(1.0, 0.5, 1)

    def exact(epsilon: float) -> float:
        """Return δ(ε) of the test and the answer for a removed record, by integration over both outcomes."""

        def density(x: float) -> float:
            loss = math.log(0.5 + 0.5 * math.exp(x - 0.5))
            grown = (math.exp(epsilon - loss) - 0.5) / 0.5
            place = math.log(grown) + 0.5 if grown > 0 else -math.inf
            without = norm.sf(place)
            with_it = 0.5 * without + 0.5 * norm.sf(place - 1)
            return norm.pdf(x) * (math.exp(loss) * with_it - math.exp(epsilon) * without)

        return float(quad(density, -10, 11, limit=200)[0])

    assert exact(answer.epsilon(1e-3)) > 1e-3
    assert exact(epsilon_together([test, answer], 1e-3)) <= 1e-3
