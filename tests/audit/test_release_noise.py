"""The noise of release mode: its seeded counterpart against the formulas."""

import numpy as np
import pytest

from patebench.accounting.votes import Votes
from patebench.audit.agreement import Tally, disagreements
from patebench.audit.release_noise import DiscreteNoise
from patebench.core.entropy import Entropy
from patebench.mechanisms.base import make_mechanism
from patebench.mechanisms.noise import IntegerNoise, log_integer_argmax_probabilities

N = 200_000


def source():
    return DiscreteNoise(np.random.default_rng(1))


@pytest.mark.parametrize(
    ("draw", "weight"),
    [
        (lambda: source().laplace(scale=2.5, size=N), lambda x: np.exp(-np.abs(x) / 2.5)),
        (lambda: source().normal(scale=2.5, size=N), lambda x: np.exp(-(x**2) / 12.5)),
        (lambda: source().exponential(scale=2.5, size=N), lambda x: np.where(x >= 0, np.exp(-x / 2.5), 0)),
    ],
)
def test_seeded_discrete_noise_has_the_stated_distribution(draw, weight):
    x = np.arange(-60, 61)
    p = weight(x) / weight(x).sum()
    shares = np.array([np.mean(draw() == value) for value in range(-6, 7)])
    expected = p[54:67]
    assert np.all(np.abs(shares - expected) < 6 * np.sqrt(expected / N) + 1e-12)


def test_without_noise_there_is_none_and_numbers_are_counted():
    nothing = source()
    assert not np.any(nothing.laplace(scale=0.0, size=50))
    assert not np.any(nothing.normal(scale=0.0, size=50))
    several = source()
    for child in several.spawn(3):
        child.integers(0, 5, size=7)
    assert several.drawn[0] == 21


@pytest.mark.parametrize(("name", "parameters"), [("gnmax", {"sigma": 2.0}), ("lnmax", {"gamma": 0.5})])
def test_releases_in_release_mode_have_the_exact_discrete_probabilities(name, parameters):
    """Compare with sums over all integers in a small case; the lowest class wins ties."""
    x = np.arange(-80, 81)
    weights = -(x**2) / 8 if name == "gnmax" else -np.abs(x) / 2
    for counts in ([5, 4, 0], [3, 3, 3]):
        stated = np.exp(log_integer_argmax_probabilities(np.array([counts]), IntegerNoise.of(weights.astype(float))))[0]
        votes = Votes(np.tile(counts, (2000, 1)))
        for drawn in (Entropy(), source()):
            labels = make_mechanism(name, parameters).release(votes, drawn)
            tally = Tally(name, np.bincount(labels, minlength=4), np.append(stated, 0.0))
            assert disagreements([tally]) == []
