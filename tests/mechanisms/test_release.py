"""Labels as released against the exact probabilities of the outcomes."""

import numpy as np
import pytest
from scipy.stats import chisquare

from patebench.accounting.votes import Votes
from patebench.mechanisms import noisy_argmax
from patebench.mechanisms.noisy_argmax import GNMax, LNMax

DRAWS = 200_000
MECHANISMS = [LNMax(0.05), LNMax(0.5), GNMax(40.0), GNMax(3.0)]


@pytest.mark.parametrize("counts", [[12, 10, 5, 3], [5, 5], [20, 18, 18, 0, 4]], ids=str)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_frequencies_follow_the_exact_probabilities(mechanism, counts):
    votes = Votes.from_counts(np.array([counts]))
    labels = mechanism.release(Votes(np.repeat(votes.counts, DRAWS, axis=0)), np.random.default_rng(20))
    observed = np.bincount(labels, minlength=len(counts))
    expected = DRAWS * np.exp(mechanism.log_outcome_probabilities(votes)[0, :-1])
    enough = expected > 5
    assert enough.sum() >= 2
    observed, expected = observed[enough], expected[enough]
    assert chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4
    wrong = np.roll(expected, 1)  # the test must notice what is not so
    if not np.allclose(wrong, expected):
        assert chisquare(observed, wrong * observed.sum() / wrong.sum()).pvalue < 1e-6


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_labels_do_not_depend_on_how_queries_are_blocked(mechanism, monkeypatch):
    votes = Votes.of(np.random.default_rng(0).integers(0, 5, size=(20, 300)), classes=5)
    whole = mechanism.release(votes, np.random.default_rng(7))
    monkeypatch.setattr(noisy_argmax, "_CELLS", 35)
    np.testing.assert_array_equal(mechanism.release(votes, np.random.default_rng(7)), whole)


@pytest.mark.parametrize("mechanism", [LNMax(np.inf), GNMax(0.0)], ids=str)
def test_without_noise_the_plurality_is_released(mechanism):
    votes = Votes.of(np.random.default_rng(0).integers(0, 3, size=(9, 400)), classes=3)
    np.testing.assert_array_equal(mechanism.release(votes, np.random.default_rng(1)), votes.plurality)
    assert all(np.isposinf(bound.epsilon) for bound in mechanism.bounds(votes, [1, 400], 1e-5))
