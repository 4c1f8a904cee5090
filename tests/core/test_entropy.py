"""Compare the exact samplers with exact probabilities, and test that draws cannot be reproduced."""

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from patebench.core.entropy import LARGEST_SCALE, Draws, Entropy, uniform_words
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Mode, generator

DRAWS = 20_000

#: Draws differ from run to run, so a sound sampler fails about once in ten million runs.
CHANCE = 1e-7


def laplace(x, scale):
    return np.tanh(0.5 / scale) * np.exp(-np.abs(x) / scale)


def normal(x, scale):
    far = np.arange(-math.ceil(60 * scale) - 60, math.ceil(60 * scale) + 61)
    return np.exp(-(x**2) / (2 * scale**2)) / np.exp(-(far**2) / (2 * scale**2)).sum()


def exponential(x, scale):
    return np.where(x >= 0, -np.expm1(-1 / scale) * np.exp(-np.maximum(x, 0) / scale), 0.0)


def pvalue(drawn, probabilities, x):
    """Return the p-value of a chi-square test over the likely values, with all others merged."""
    expected = DRAWS * probabilities
    often = expected > 10
    observed = np.array([np.sum(drawn == value) for value in x[often]])
    observed, expected = np.append(observed, DRAWS - observed.sum()), np.append(expected[often], 0)
    expected[-1] = DRAWS - expected.sum()
    if expected[-1] < 10:
        assert observed[-1] < 60
        observed, expected = observed[:-1], expected[:-1]
    return chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5])
@pytest.mark.parametrize("pmf", [laplace, normal, exponential], ids=lambda pmf: pmf.__name__)
def test_noise_has_the_exact_distribution(pmf, scale):
    drawn = getattr(Entropy(), pmf.__name__)(scale=scale, size=(DRAWS // 10, 10))
    assert drawn.dtype == np.int64
    assert drawn.shape == (DRAWS // 10, 10)
    x = np.arange(-200, 201)
    assert pvalue(drawn, pmf(x, scale), x) > CHANCE
    assert pvalue(drawn, pmf(x, 1.2 * scale), x) < 1e-9, "the test must detect a wrong scale"


def test_uniform_integers_and_fractions():
    source, x = Entropy(), np.arange(-3, 4)
    assert pvalue(source.integers(-3, 4, size=DRAWS), np.full(7, 1 / 7), x) > CHANCE
    fractions = source.random(DRAWS)
    assert np.all((fractions >= 0) & (fractions < 1))
    assert pvalue(np.floor(fractions * 7).astype(int) - 3, np.full(7, 1 / 7), x) > CHANCE


def test_integers_are_unbiased_where_words_do_not_divide(monkeypatch):
    """Draw words at and beyond the last whole multiple of the span again."""
    words = iter([[0, 2**64 - 1, 2**64 - 2], [2**64 - 1], [5]])
    monkeypatch.setattr("os.urandom", lambda count: np.array(next(words), dtype=np.uint64).tobytes()[:count])
    span = (2**64 - 1) // 3  # three whole multiples, and one word beyond
    np.testing.assert_array_equal(Entropy().integers(0, span, size=3), [0, 5, span - 1])


def test_two_draws_differ():
    for draw in (
        lambda: Entropy().laplace(scale=50, size=40),
        lambda: Entropy().normal(scale=50, size=40),
        lambda: uniform_words(Entropy(), 4),
    ):
        assert np.any(draw() != draw())


def test_scale_zero_gives_no_noise_and_invalid_scales_are_refused():
    assert not Entropy().laplace(scale=0.0, size=5).any()
    assert not Entropy().normal(scale=0.0, size=5).any()
    assert Entropy().normal(scale=3.0, size=0).shape == (0,)
    for scale in (-1.0, math.nan, math.inf, 2 * LARGEST_SCALE):
        with pytest.raises(PatebenchError, match="cannot be drawn exactly"):
            Entropy().laplace(scale=scale, size=1)


def test_a_stage_draws_from_its_stream_or_from_the_operating_system():
    seeded, free = Draws.of(False, 3, "digits"), Draws.of(True, None, None)
    assert (seeded.mode, free.mode) == (Mode.SEEDED, Mode.RELEASE)
    np.testing.assert_array_equal(seeded.source().random(4), generator(3, "digits").random(4))
    np.testing.assert_array_equal(seeded.source("masks").random(4), generator(3, "digits", "masks").random(4))
    assert isinstance(free.source("masks"), Entropy)
    for release, seed, stream, fault in (
        (True, 0, None, "leave out --seed and --stream"),
        (True, None, "digits", "leave out --seed and --stream"),
        (False, None, "digits", "give --seed and --stream"),
        (False, 0, None, "give --seed and --stream"),
    ):
        with pytest.raises(PatebenchError, match=fault):
            Draws.of(release, seed, stream)
