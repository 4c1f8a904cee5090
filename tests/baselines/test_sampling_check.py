"""Test the checks of Poisson sampling: rates of false alarms, and batches of one size."""

import numpy as np
import pytest
from scipy.stats import binom

from patebench.baselines import sampling_check
from patebench.baselines.sampling_check import SamplingCheck


def checked(batches, rate, samples):
    check = SamplingCheck(rate, samples)
    for batch in batches:
        check.add(np.asarray(batch, dtype=np.int64))
    return check


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "rate", "steps"), [(40, 0.5, 15), (1, 0.5, 10)])
def test_sound_runs_are_refused_no_more_often_than_stated(samples, rate, steps, monkeypatch):
    """At a level of 0.2 in place of 1e-12: of 40 runs no more than chance allows."""
    monkeypatch.setattr(sampling_check, "ALPHA", 0.2)
    rng, refused = np.random.default_rng(samples), 0
    for _ in range(40):
        drawn = rng.random((steps, samples)) < rate
        refused += checked(map(np.flatnonzero, drawn), rate, samples).failed() is not None
    assert refused <= binom.ppf(1 - 1e-6, 40, 0.2)


def test_batches_of_one_size_are_refused_as_soon_as_that_is_improbable():
    """Batches of 50 of 500: Poisson sampling gives nine of them with a probability above the level."""
    assert sampling_check.ALPHA <= 1e-12
    rng = np.random.default_rng(0)
    batches = [rng.permutation(500)[:50] for _ in range(12)]
    assert 9 * binom.logpmf(50, 500, 0.1) > np.log(1e-12)
    assert checked(batches[:9], 0.1, 500).failed() is None
    assert checked(batches, 0.1, 500).failed() == "the sizes of the batches"
    assert checked([range(5)] * 3, 1.0, 5).failed() is None
    assert checked([range(5), range(4)], 1.0, 5).failed() == "the sizes of the batches"


@pytest.mark.parametrize("samples", [0, 1, 2, 7, 8])
def test_each_sample_is_in_one_pair_at_most(samples):
    rng = np.random.default_rng(samples)
    history = rng.integers(0, 3, samples).astype(np.uint64)
    one, other = sampling_check.pairs_by_history(history)
    together = np.concatenate([one, other])
    assert len(together) == len(np.unique(together)) == samples // 2 * 2
    equal = sum(count // 2 for count in np.unique(history, return_counts=True)[1])
    assert np.sum(history[one] == history[other]) == equal
