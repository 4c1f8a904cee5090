"""Tests of releases against stated probabilities: their p-values against binomial and hypergeometric distributions."""

import numpy as np
import pytest
from scipy.stats import binom, fisher_exact

from patebench.audit.agreement import ALPHA, Tally, TwoTallies, disagreements, tally_neighbours

STATED = np.array([0.5, 0.3, 0.2, 0.0])


def test_p_values_are_those_of_the_binomial_distribution():
    seen = np.array([430, 340, 230, 0])
    expected = [2 * min(binom.cdf(x, 1000, p), binom.sf(x - 1, 1000, p)) for x, p in zip(seen, STATED, strict=True)]
    found = Tally("here", seen, STATED).p_values()
    np.testing.assert_allclose(found, np.minimum(expected, 1), rtol=1e-4)
    assert Tally("here", np.array([999, 0, 0, 1]), STATED).p_values()[3] < 1e-11, "it cannot happen"
    must = np.array([1.0, 0.0])
    np.testing.assert_array_equal(Tally("here", np.array([50, 0]), must).p_values(), [1, 1])
    assert Tally("here", np.array([49, 1]), must).p_values().min() < 1e-11


def test_a_disagreement_is_one_line_and_counts_all_tests():
    tallies = [Tally("here", np.array([500, 300, 200, 0]), STATED)] * 9
    assert disagreements(tallies) == []
    (line,) = disagreements([*tallies, Tally("there", np.array([300, 500, 200, 0]), STATED)])
    assert line.startswith("class 1 in 500 of 1000 there, where 300 are expected (p < ")
    assert "over 40 tests" in line
    assert disagreements([]) == []
    assert ALPHA <= 1e-6


@pytest.mark.parametrize("lag", [1, 2, 5, 64, 500])
def test_labels_that_come_back_are_seen(lag):
    rng = np.random.default_rng(lag)
    sound = rng.choice(4, p=STATED, size=20_000)
    assert disagreements(tally_neighbours("here", sound, STATED)) == []
    copied = sound[: len(sound) // (2 * lag) * 2 * lag].reshape(-1, 2, lag).copy()
    copied[:, 1] = copied[:, 0]
    assert disagreements(tally_neighbours("here", copied.ravel(), STATED))


@pytest.mark.parametrize(("seen", "reference"), [((30, 70), (200, 800)), ((0, 40), (90, 910)), ((100, 0), (1000, 0))])
def test_two_samples_are_compared_as_fisher_did(seen, reference):
    found = TwoTallies("", np.array(seen), np.array(reference)).p_values()
    table = [[seen[0], reference[0]], [seen[1], reference[1]]]
    tails = [fisher_exact(table, alternative=side).pvalue for side in ("less", "greater")]
    np.testing.assert_allclose(found, min(1, 2 * min(tails)), rtol=1e-8)
