"""Compare the ε of noisy sums with the δ of the Gaussian mechanism, and sensitivities with random vectors."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from patebench.core.errors import PatebenchError
from patebench.petdl import noisy_sums
from patebench.petdl.noisy_sums import Summand


def delta_of_shift(shift: float, epsilon: float) -> float:
    """Return δ(ε) of N(shift, 1) against N(0, 1), by integrating the positive part of the difference."""
    edge = epsilon / shift + shift / 2
    found, _ = quad(lambda x: norm.pdf(x - shift) - math.exp(epsilon) * norm.pdf(x), edge, edge + 30)
    return float(found)


@pytest.mark.parametrize(
    ("noise", "counts", "shift"),
    [
        (40.0, {Summand.VECTOR: 100}, 2 * 10 / 40),
        (30.0, {Summand.NON_NEGATIVE: 50}, 10 / 30),
        (30.0, {Summand.NON_NEGATIVE: 50, Summand.VECTOR: 50}, math.sqrt(300) / 30),
        (12.0, {Summand.LOSS: 144}, 1.0),
    ],
)
def test_epsilon_is_that_of_one_shift_as_long_as_all_together(
    noise: float, counts: dict[Summand, int], shift: float
) -> None:
    epsilon = noisy_sums.epsilon(noise, counts, 1e-5)
    assert delta_of_shift(shift, epsilon) == pytest.approx(1e-5, rel=1e-4)


def test_sensitivities_are_reached_and_not_exceeded() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(20_000, 3))
    vectors = drawn / np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), 1)
    one, other = vectors[::2], vectors[1::2]
    assert (np.sum((one - other) ** 2, axis=1) <= Summand.VECTOR.value).all()
    assert (np.sum((np.abs(one) - np.abs(other)) ** 2, axis=1) <= Summand.NON_NEGATIVE.value).all()
    unit = np.eye(3)
    assert np.sum((unit[0] + unit[0]) ** 2) == Summand.VECTOR.value
    assert np.sum((unit[0] - unit[1]) ** 2) == Summand.NON_NEGATIVE.value


def test_without_noise_nothing_holds_and_without_releases_nothing_is_lost() -> None:
    assert noisy_sums.epsilon(0.0, {Summand.VECTOR: 1}, 1e-5) == math.inf
    assert noisy_sums.epsilon(0.0, {Summand.VECTOR: 0}, 1e-5) == 0
    with pytest.raises(PatebenchError, match="ε does not depend on this parameter"):
        noisy_sums.noise_for(1.0, {Summand.VECTOR: 0}, 1e-5)


@pytest.mark.parametrize("target", [0.1, 1.0, 8.0])
def test_the_noise_for_a_target_keeps_it_and_hardly_less_does_not(target: float) -> None:
    counts = {Summand.VECTOR: 700}
    noise = noisy_sums.noise_for(target, counts, 1e-5)
    assert noisy_sums.epsilon(noise, counts, 1e-5) <= target
    assert noisy_sums.epsilon(noise * (1 - 1e-9), counts, 1e-5) > target
