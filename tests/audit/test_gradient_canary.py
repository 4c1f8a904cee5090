"""A gradient canary measures the ε of a DP-SGD step: close to the stated ε, and larger for planted faults."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from patebench.accounting.subsampled_gaussian import SubsampledGaussian
from patebench.audit.trained_models import Audited, audit_step
from patebench.audit.verdict import Verdict
from patebench.baselines.clipped_models import LinearModel
from patebench.baselines.noisy_steps import NoisySteps, PoissonSampler

DELTA, SAMPLES, CLIP = 1e-5, 9, 0.5
STATED = SubsampledGaussian(noise=0.7, rate=0.9, steps=1)


class Toy:
    """Nine samples whose second feature is 0 and, if `present`, a canary with only a huge second feature.

    Along the weights of the second feature, the canary's clipped gradient has the clipping norm, and all other
    gradients are 0.
    """

    def __init__(self, present: bool) -> None:
        rng = np.random.default_rng(3)
        x = np.c_[rng.normal(size=SAMPLES), np.zeros(SAMPLES)]
        y = rng.integers(0, 2, SAMPLES)
        if present:
            x, y = np.r_[x, [[0.0, 1e6]]], np.r_[y, 1]
        self.model = LinearModel(lambda x: x, x, y, classes=2)
        self.samples = len(x)

    def along(self, total: torch.Tensor) -> float:
        return float(total.view(3, 2)[1] @ torch.tensor([-1.0, 1.0], dtype=total.dtype)) / -(2**0.5)

    def clipped_sum(self, chosen: torch.Tensor, clip: float) -> torch.Tensor:
        return self.model.clipped_sum(self.model.start(), chosen, clip)


#: Makes what takes one step after the other, from a toy and a generator.
Steps = Callable[[Toy, torch.Generator], Callable[[], torch.Tensor]]


def _noisy(toy: Toy, rng: torch.Generator, rate: float = STATED.rate, noise: float = STATED.noise) -> NoisySteps:
    return NoisySteps(PoissonSampler(rate, rng), toy.samples, noise=noise, clip=CLIP, rng=rng)


def _sound(toy: Toy, rng: torch.Generator) -> Callable[[], torch.Tensor]:
    noisy = _noisy(toy, rng)
    return lambda: noisy.step(toy.clipped_sum)


def _unclipped(toy: Toy, rng: torch.Generator) -> Callable[[], torch.Tensor]:
    """Clip at ten times the norm."""
    noisy = _noisy(toy, rng)
    return lambda: noisy.step(lambda chosen, clip: toy.clipped_sum(chosen, 10 * clip))


def _noise_of_a_mean(toy: Toy, rng: torch.Generator) -> Callable[[], torch.Tensor]:
    """Add the noise of a mean over the expected batch to the sum."""
    noisy = _noisy(toy, rng, noise=STATED.noise / (STATED.rate * SAMPLES))
    return lambda: noisy.step(toy.clipped_sum)


def _with_replacement(toy: Toy, rng: torch.Generator) -> Callable[[], torch.Tensor]:
    """Draw a batch of the expected size with replacement."""

    def step() -> torch.Tensor:
        chosen = torch.randint(toy.samples, (round(STATED.rate * toy.samples),), generator=rng)
        total = toy.clipped_sum(chosen, CLIP) / CLIP
        return total + STATED.noise * torch.randn(total.shape, generator=rng)

    return step


def _always(toy: Toy, rng: torch.Generator) -> Callable[[], torch.Tensor]:
    """Use all samples, contrary to the stated rate."""
    noisy = _noisy(toy, rng, rate=1.0)
    return lambda: noisy.step(toy.clipped_sum)


def _audited(steps: Steps, runs: int, stated: SubsampledGaussian = STATED) -> Audited:
    rng, seen = torch.Generator().manual_seed(11), []
    for toy in (Toy(True), Toy(False)):
        step = steps(toy, rng)
        seen.append(np.array([toy.along(step()) for _ in range(runs)]))
    return audit_step(*seen, stated, DELTA)


@pytest.mark.slow
def test_a_sound_step_loses_nearly_what_is_stated() -> None:
    found = _audited(_sound, 2000)
    assert found.stated == STATED.epsilon(DELTA)
    assert found.verdict is Verdict.HOLDS
    assert 0.7 * found.stated < found.audited <= found.stated


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "runs", "rate"),
    [(_unclipped, 700, 0.9), (_noise_of_a_mean, 700, 0.9), (_with_replacement, 10_000, 0.9), (_always, 1500, 0.5)],
)
def test_planted_faults_are_found(steps: Steps, runs: int, rate: float) -> None:
    assert _audited(steps, runs, replace(STATED, rate=rate)).verdict is Verdict.VIOLATED


def _gaussian(noise: float, rate: float, runs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=runs) * noise + (rng.random(runs) < rate), rng.normal(size=runs) * noise


@pytest.mark.slow
def test_the_bound_is_rarely_above_the_truth_and_near_it_with_a_million_runs() -> None:
    """Check that a false alarm of probability below 1/1000 does not occur in 50 audits."""
    stated = SubsampledGaussian(1.5, 0.3, 1)
    assert all(
        audit_step(*_gaussian(1.5, 0.3, 2000, seed), stated, DELTA).verdict is Verdict.HOLDS for seed in range(50)
    )
    found = audit_step(*_gaussian(1.0, 0.5, 1_000_000, 0), SubsampledGaussian(1.0, 0.5, 1), DELTA)
    assert 0.94 * found.stated < found.audited <= found.stated


def test_runs_that_do_not_differ_show_no_loss() -> None:
    runs = np.random.default_rng(0).normal(size=(2, 5000))
    assert audit_step(*runs, SubsampledGaussian(1.0, 0.5, 1), DELTA).audited < 0.5
    assert audit_step(*runs, SubsampledGaussian(0.0, 0.5, 1), DELTA).stated == np.inf
