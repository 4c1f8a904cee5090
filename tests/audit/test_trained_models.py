"""The audit of private models: published PET-DL is violated, sound forms hold, planted faults are found."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from patebench.audit.trained_models import audit_means, audit_noise, audit_release
from patebench.audit.verdict import Verdict
from patebench.petdl import FORMS, noisy_gradient, noisy_sums
from patebench.petdl.form import Form, Settings
from patebench.petdl.noisy_sums import Summand, with_noise
from patebench.petdl.student import Knowledge
from tests.petdl import world

RUNS, CONFIDENCE, NOISE, CLIP, TEACHERS = 1500, 0.999, 2.0, 0.5, 5
SETTINGS = Settings(noise=NOISE, hint_epochs=1, distillation_epochs=1, batch=32, clip=CLIP, hint_clip=CLIP)
SOUND = [
    ("noisy-gradient", Summand.VECTOR),
    ("noisy-knowledge", Summand.NON_NEGATIVE),
    ("noisy-knowledge", Summand.VECTOR),
]


def train(name: str, side: bool, noise: float, stream: int, width: int = 4) -> Sequence[NDArray[np.floating]]:
    """Train a student of four teachers, or of the neighbour in which one of them differs."""
    x, y = world.pool()
    known = world.knowledge(y)
    if not side:
        other = world.knowledge(y.flip(0), seed=9)
        assert known.hints is not None
        assert other.hints is not None
        swapped = (
            torch.cat([b[:1], a[1:]])
            for a, b in ((known.probabilities, other.probabilities), (known.hints, other.hints))
        )
        known = Knowledge(*swapped)

    form: Form = FORMS.load(name)
    made = world.student(x, width=width)
    settings = replace(SETTINGS, noise=noise)
    form.learn(made, made.samples(x), known, settings, 0, lambda epoch: None, noises=stream)
    return [each.numpy() for each in made.state()]


@pytest.mark.slow
@pytest.mark.parametrize("width", [4, 64])  # the second computes in bfloat16, where the processor has it
def test_as_published_the_weights_are_the_same_without_noise_and_with_a_million(width: int) -> None:
    found = audit_noise(lambda *how: train("published", *how, width=width), stated=1.21)
    assert found.audited == math.inf
    assert found.verdict is Verdict.VIOLATED
    assert "same bit for bit" in found.how


@pytest.mark.parametrize("name", ["noisy-gradient", "noisy-knowledge"])
def test_in_the_sound_forms_noise_reaches_the_weights(name: str) -> None:
    found = audit_noise(lambda *how: train(name, *how), stated=1.21)
    assert (found.audited, found.verdict) == (0.0, Verdict.HOLDS)


def vectors(sort: Summand) -> tuple[Tensor, Tensor]:
    """Return long vectors of all teachers on two neighbours; those of one teacher are opposite or orthogonal."""
    here = torch.zeros(TEACHERS, 6)
    here[:, 0] = 10 * CLIP
    there = here.clone()
    there[0] = -here[0] if sort is Summand.VECTOR else here[0].roll(1)
    return here, there


def released(form: Form, sort: Summand, settings: Settings = SETTINGS) -> NDArray[np.floating]:
    """Return releases (sides, runs, features) on both sides."""
    rng = torch.Generator().manual_seed(4)
    sides = []
    for side in vectors(sort):
        drawn = [form.release(side, sort, settings, rng) for _ in range(RUNS)]
        sides.append(torch.stack([each for each in drawn if each is not None]).numpy())
    return np.stack(sides)


def verdicts(name: str, sort: Summand, stated: float | None = None) -> tuple[Verdict, Verdict, float]:
    """Return the verdicts of the exact and of the sampled audit, and the sampled μ."""
    form: Form = FORMS.load(name)
    means = released(form, sort, replace(SETTINGS, noise=0.0))[:, 0]
    found = released(form, sort)
    stated = noisy_sums.mu(NOISE, {sort: 1}) if stated is None else stated
    measured = audit_release(*(side[:RUNS] for side in found), means[0] - means[1], CONFIDENCE, stated)
    return audit_means(means[0], means[1], NOISE * CLIP, stated).verdict, measured.verdict, measured.audited


def without_clip(norms: Tensor, clip: float) -> Tensor:
    return torch.ones_like(norms)


def noise_for_the_mean(total: Tensor, clip: float, noise: float, rng: torch.Generator) -> Tensor:
    return with_noise(total, clip, noise / TEACHERS, rng)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sort"), SOUND)
def test_the_sound_forms_hold_and_planted_faults_are_found(
    name: str, sort: Summand, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_means, by_runs, measured = verdicts(name, sort)
    stated = noisy_sums.mu(NOISE, {sort: 1})
    assert (by_means, by_runs) == (Verdict.HOLDS, Verdict.HOLDS)
    assert measured > 0.65 * stated, "and the audit is not blind: the pair is the worst one"
    assert verdicts(name, sort, stated / 2)[:2] == (Verdict.VIOLATED, Verdict.VIOLATED), "half the sensitivity"
    for function, fault in (("factors", without_clip), ("with_noise", noise_for_the_mean)):
        with monkeypatch.context() as patch:
            patch.setattr(noisy_sums, function, fault)
            patch.setattr(noisy_gradient, function, fault)
            by_means, by_runs, _ = verdicts(name, sort)
        assert by_runs is Verdict.VIOLATED, function
        assert by_means is Verdict.VIOLATED or function == "with_noise", "only runs show the wrong noise"


def test_a_model_that_ignores_its_teachers_is_no_violation() -> None:
    found = audit_noise(lambda side, noise, stream: [np.zeros(3)], stated=1.0)
    assert found.verdict is Verdict.HOLDS
    assert "neither noise nor the change of the data alters the model" in found.how
