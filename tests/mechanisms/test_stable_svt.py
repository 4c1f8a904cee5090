"""The stable argmax in the sparse vector technique, with either noise, against all transcripts by quadrature."""

import math
from itertools import product

import numpy as np
import pytest
from tests.accounting.oracles import neighbours, p_value
from tests.accounting.test_sparse_vector import LAPLACE, NORMAL, probabilities, transcripts

from patebench.accounting import conversion, sparse_vector
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion, Kind
from patebench.mechanisms import stable_argmax
from patebench.mechanisms.base import NO_ANSWER, make_mechanism
from patebench.mechanisms.noise import Gaussian
from patebench.mechanisms.stable_argmax import StableSVT, StableSVTGaussian

MECHANISMS = [StableSVT(3.0, 0.02, 1), StableSVT(12.0, 0.005, 2), StableSVTGaussian(0.8, 1.2, 0.01, 2)]
ROWS = [[9, 0, 0], [6, 2, 1], [5, 4, 0], [3, 3, 3], [1, 3, 5]]


def releases(mechanism, counts):
    """Return Pr of every possible list of labels, from the probabilities of the transcripts."""
    votes = Votes.from_counts(np.array(counts))
    distances, scales = stable_argmax.distance(votes.counts), [noise.scale for noise in mechanism.noises]
    shape = NORMAL if isinstance(mechanism.noises[0], Gaussian) else LAPLACE
    chances = probabilities(distances, mechanism.failures, mechanism.threshold, scales, shape)
    found = {}
    for seen, chance in zip(transcripts(len(counts), mechanism.failures), chances, strict=True):
        passed = np.pad(np.array(seen), (0, len(counts) - len(seen)))
        labels = tuple(np.where(passed, votes.plurality, NO_ANSWER).tolist())
        found[labels] = found.get(labels, 0.0) + chance
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_releases_follow_the_transcripts(mechanism):
    counts, draws = [ROWS[1], ROWS[0], ROWS[2], ROWS[1]], 20_000
    expected, rng = releases(mechanism, counts), np.random.default_rng(5)
    votes = Votes.from_counts(np.array(counts))
    observed = dict.fromkeys(expected, 0)
    for _ in range(draws):
        observed[tuple(mechanism.release(votes, rng).tolist())] += 1
    wanted = draws * np.array([*expected.values()])
    assert np.sum(wanted > 5) > 4
    assert p_value([observed[labels] for labels in expected], wanted, least=5) > 1e-4


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_marginals_are_those_of_the_transcripts(mechanism):
    for counts in ([ROWS[0]], [ROWS[1], ROWS[0], ROWS[2], ROWS[4]], [ROWS[3]] * 3 + [ROWS[0]]):
        expected = np.zeros((len(counts), 4))
        for labels, chance in releases(mechanism, counts).items():
            expected[np.arange(len(counts)), labels] += chance
        got = np.exp(mechanism.log_outcome_probabilities(Votes.from_counts(np.array(counts))))
        np.testing.assert_allclose(got, expected, atol=1e-9)


def hockey_stick(own, neighbour, epsilon):
    return sum(max(chance - math.exp(epsilon) * neighbour.get(labels, 0.0), 0.0) for labels, chance in own.items())


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_bounds_hold_for_what_is_released(mechanism):
    """Compare labels, not only the answered queries, for adjacent votes with equal and with different pluralities."""
    rng, delta = np.random.default_rng(8), 0.1
    for rows in [*product(ROWS, repeat=2), [ROWS[0], ROWS[2], ROWS[1]], [ROWS[2]] * 3]:
        votes = Votes.from_counts(np.array(rows))
        bounds = [bound.epsilon for bound in mechanism.bounds(votes, [len(rows)], delta)]
        assert all(math.isfinite(epsilon) for epsilon in bounds)
        own = releases(mechanism, rows)
        for _ in range(6):
            changed = [np.vstack([row, neighbours(list(row))]) for row in rows]
            neighbour = releases(mechanism, [choices[rng.integers(len(choices))] for choices in changed])
            worst = max(hockey_stick(own, neighbour, min(bounds)), hockey_stick(neighbour, own, min(bounds)))
            assert worst <= delta * (1 + 1e-9)


@pytest.mark.parametrize("name", ["stable-svt", "stable-svt-gaussian"])
def test_a_query_that_one_teacher_decides_is_answered_with_the_failure_probability(name):
    shape = {"epsilon": 9.0} if name == "stable-svt" else {"sigma1": 3.0, "sigma2": 5.0}
    for failure in (0.3, 1e-3, 1e-9):
        mechanism = make_mechanism(name, {**shape, "failure": failure, "cutoff": 4})
        answered = np.exp(mechanism.log_outcome_probabilities(Votes.from_counts(np.array([[5, 4, 0]])))[0, 0])
        assert 0.75 * failure < answered <= failure * (1 + 1e-6)
        if failure < 0.1:
            assert answered == pytest.approx(failure, rel=0.02)


def test_bounds_are_the_theorems_and_the_failures_are_paid():
    votes = Votes.from_counts(np.tile([40, 5, 5], (300, 1)))
    mechanism = StableSVT(10.0, 1e-8, 20)
    find = {(b.accountant, b.conversion, b.queries): b for b in mechanism.bounds(votes, [5, 300], 1e-5)}
    assert all(bound.kind is Kind.WORST_CASE and bound.publishable for bound in find.values())
    assert find["basic", Conversion.NONE, 300].epsilon == pytest.approx(10, rel=1e-12)
    assert find["basic", Conversion.NONE, 5].epsilon < 5
    scales = [noise.scale for noise in mechanism.noises]
    curve = sparse_vector.laplace(*scales, 300, 20, conversion.ORDERS)
    expected = np.min(conversion.tight(conversion.ORDERS, curve, 1e-5 - 300e-8))
    assert find["rdp", Conversion.TIGHT, 300].epsilon == pytest.approx(expected, rel=1e-3)
    gaussian = StableSVTGaussian(5.0, 9.0, 1e-8, 20)
    for each in (mechanism, gaussian):
        assert all(math.isinf(bound.epsilon) for bound in each.bounds(votes, [300], 299e-8))
        assert all(math.isfinite(bound.epsilon) for bound in each.bounds(votes, [300], 301e-8))


def test_after_the_cutoff_nothing_is_said():
    votes = Votes.from_counts(np.tile([40, 22, 8], (200, 1)))
    answered = []
    for seed in range(20):
        labels = StableSVT(4.0, 0.01, 3).release(votes, np.random.default_rng(seed))
        third = np.flatnonzero(labels == NO_ANSWER)[2]
        assert np.all(labels[third:] == NO_ANSWER)
        answered.append(third - 2)
    assert max(answered) > 5
