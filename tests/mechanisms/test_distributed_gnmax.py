"""Distributed GNMax: noise in shares, and labels that agree with exact sums."""

import numpy as np
import pytest
from tests.accounting.oracles import p_value, sum_of_gaussians, winners

from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.core.entropy import Entropy
from patebench.core.seeds import generator
from patebench.mechanisms.noise import log_integer_argmax_probabilities, log_sum_of_normals
from patebench.mechanisms.noise_shares import DistributedGNMax

COUNTS = [5, 5, 3, 2]


@pytest.mark.parametrize(("sigma", "tolerance"), [(1.2, 0), (3.0, 5)])
def test_outcome_probabilities_by_enumeration(sigma, tolerance):
    mechanism = DistributedGNMax(sigma, tolerance)
    found = np.exp(mechanism.log_outcome_probabilities(Votes(np.array([COUNTS])))[0])
    np.testing.assert_allclose(
        found[:-1], winners(COUNTS, sum_of_gaussians(sigma / np.sqrt(15 - tolerance), 15)), rtol=1e-9
    )
    assert found[-1] == 0


def test_rare_outcomes_keep_their_digits():
    """A class 40 votes behind under noise of variance 4: far below what a double's 1 − p can tell."""
    (log_p,) = log_integer_argmax_probabilities(np.array([[40, 0]]), log_sum_of_normals(1.0, 4))
    x = np.arange(-200, 201)
    log_noise = -(x**2) / 8.0
    log_noise -= np.logaddexp.reduce(log_noise)
    below = np.logaddexp.accumulate(log_noise)
    expected = np.logaddexp.reduce(log_noise[41:] + below[:-41])  # noise of 1 beats that of 0 by 41 at least
    assert log_p[1] == pytest.approx(expected, rel=1e-6)
    assert log_p[1] < -90


@pytest.mark.parametrize("source", [generator(0, "s"), Entropy()], ids=["seeded", "entropy"])
def test_labels_follow_them(source):
    mechanism = DistributedGNMax(2.0, 5)
    labels = mechanism.release(Votes(np.tile(COUNTS, (400, 1))), source)
    expected = 400 * winners(COUNTS, sum_of_gaussians(2 / np.sqrt(10), 15))
    observed = np.bincount(labels, minlength=4)
    assert p_value(observed, expected, least=0) > 1e-7
    assert p_value(observed, expected[::-1], least=0) < 1e-9


def test_noise_is_as_promised_when_as_many_are_missing_as_may_be():
    mechanism, shape = DistributedGNMax(6.0, 5), (4000, 4)
    sources = generator(0, "s").spawn(30)
    noise = sum(mechanism.share(30, shape, source) for source in sources[5:])
    assert np.var(noise) == pytest.approx(36, rel=0.05)
    everybody = noise + sum(mechanism.share(30, shape, source) for source in sources[:5])
    assert np.var(everybody) == pytest.approx(36 * 30 / 25, rel=0.05)


def test_bounds_are_those_of_all_noisy_counts_and_never_of_the_votes():
    mechanism = DistributedGNMax(20.0, 3)
    unanimous, split = (Votes(np.tile(counts, (50, 1))) for counts in ([40, 0, 0], [20, 20, 0]))
    bounds = [mechanism.bounds(votes, [10, 50], 1e-5) for votes in (unanimous, split)]
    assert bounds[0] == bounds[1]
    assert {bound.kind for bound in bounds[0]} == {Kind.WORST_CASE}
    assert mechanism.bounds(split, [10, 50], 1e-5, discrete=True)[0].epsilon == bounds[1][0].epsilon
    orders = np.array([2.0, 8.0])
    assert np.all(mechanism.per_query_cost(40, 10).answer(orders) >= orders / 400)
    np.testing.assert_allclose(mechanism.per_query_cost(40, 10).answer(orders), orders / 400, rtol=1e-6)
