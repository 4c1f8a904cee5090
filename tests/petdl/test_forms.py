"""Test the forms of PET-DL: sums, clipping, training of students, and refused settings."""

from dataclasses import replace

import pytest
import torch
from tests.petdl import world
from tests.rounding import ROUNDING

from patebench.core.bound import Kind
from patebench.core.errors import PatebenchError
from patebench.models.device import compute_dtype
from patebench.petdl import FORMS, noisy_gradient, noisy_knowledge, published_form
from patebench.petdl.form import Form, Settings
from patebench.petdl.noisy_sums import Summand, clipped, noisy_sum, with_noise
from patebench.petdl.student import Knowledge

QUIET = Settings(noise=0.0, hint_epochs=2, distillation_epochs=12, batch=32, clip=100.0, hint_clip=100.0)
GIVEN = {"noise": 3.0, "delta": 1e-5}


def form(name: str) -> Form:
    found: Form = FORMS.load(name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS.names())
@pytest.mark.parametrize("weighted", [False, True])
def test_every_form_learns_where_there_is_no_noise(name: str, weighted: bool) -> None:
    _, accuracy = world.learnt(form(name), replace(QUIET, weighted=weighted))
    assert accuracy > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS.names())
def test_the_same_seed_gives_the_same_student(name: str) -> None:
    settings = replace(QUIET, noise=0.3, clip=1.0, hint_epochs=1, distillation_epochs=1)
    one, again, other = (world.learnt(form(name), settings, seed=seed)[0].state() for seed in (1, 1, 2))
    assert all(torch.allclose(a, b, rtol=0, atol=ROUNDING) for a, b in zip(one, again, strict=True))
    assert not all(torch.allclose(a, b, rtol=0, atol=ROUNDING) for a, b in zip(one, other, strict=True))


# Reduced precision.


@pytest.mark.slow
@pytest.mark.skipif(compute_dtype(torch.device("cpu")) is torch.float32, reason="no bfloat16 on this processor")
def test_a_student_in_bfloat16_learns_as_well_and_hands_out_single_precision() -> None:
    x, y = world.pool()
    made = world.student(x, width=64)
    assert made.compute_dtype is torch.bfloat16, "wide enough for it to pay"
    known = world.knowledge(y).to(made.device)
    form("noisy-knowledge").learn(made, made.samples(x), known, QUIET, 5, lambda epoch: None)
    assert (made.predict(x) == y).double().mean() > 0.9
    assert {each.dtype for each in made.weights()} == {torch.float32}
    samples = made.samples(x)[:4]
    assert made.logits(samples).dtype == made.hints(samples).dtype == torch.float32


# As published.


def test_the_published_loss_by_hand() -> None:
    losses = torch.tensor([[1.0, 3.0], [10.0, 20.0]], requires_grad=True)
    settings = replace(QUIET, clip=4.0)
    found = published_form.aggregated(losses, torch.ones(2, 2), settings, torch.Generator())
    assert found.item() == pytest.approx((2 + 4) / 2), "mean losses 2 and 15, the second clipped to 4"
    found.backward()  # type: ignore[no-untyped-call]
    assert losses.grad is not None
    assert losses.grad.flatten().tolist() == pytest.approx([0.25, 0.25, 4 / 15 / 4, 4 / 15 / 4])


def test_confidence_and_softened_outputs_by_hand() -> None:
    known = Knowledge(torch.tensor([[[0.9, 0.1]], [[0.4, 0.6]]]))
    found = published_form.weights(known, torch.tensor([0]), replace(QUIET, weighted=True))
    assert found.flatten().tolist() == pytest.approx([0.9 / 0.75, 0.6 / 0.75])
    logits, rows = torch.randn(3, 5, 4), torch.tensor([4, 0])
    assert torch.allclose(Knowledge(logits.softmax(2)).softened(3.0, rows), (logits[:, rows] / 3).softmax(2), atol=1e-5)


def test_the_published_noise_has_the_stated_deviation_and_no_gradient() -> None:
    settings, rng = replace(QUIET, noise=5.0, clip=4.0), torch.Generator().manual_seed(0)
    losses = torch.zeros((10, 3), requires_grad=True)
    drawn = torch.stack([published_form.aggregated(losses, torch.ones(10, 3), settings, rng) for _ in range(4000)])
    assert drawn.std().item() == pytest.approx(5.0 * 4.0 / 10, rel=0.05)
    (gradient,) = torch.autograd.grad(drawn[0], losses)
    assert gradient.flatten().tolist() == pytest.approx([1 / 30] * 30)


def test_knowledge_goes_where_the_samples_are() -> None:
    _, y = world.pool()
    there = world.knowledge(y).to(torch.device("meta"))
    assert there.hints is not None
    assert {there.probabilities.device.type, there.hints.device.type} == {"meta"}
    assert world.knowledge(y, hints=False).to(torch.device("cpu")).hints is None


# Noisy gradients.


@pytest.mark.parametrize("at_once", [noisy_gradient._AT_ONCE, 40], ids=["one call", "several calls"])
def test_gradients_in_a_call_are_those_of_each_teacher(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_gradient, "_AT_ONCE", at_once)
    x, y = world.pool()
    made = world.student(x)
    known, rows = world.knowledge(y).to(made.device), torch.arange(32)
    samples, weights = made.samples(x)[:32], made.weights()
    logits = made.logits(samples)
    softened = known.softened(1.0, rows)
    together = noisy_gradient.per_teacher(logits, (logits.detach().softmax(1) - softened) / 32, weights)
    for teacher in range(world.TEACHERS):
        loss = -(softened[teacher] * logits.log_softmax(1)).sum(1).mean()
        alone = torch.autograd.grad(loss, weights, retain_graph=True)
        for one, each in zip(alone, together, strict=True):
            assert torch.allclose(one, each[teacher], atol=1e-5)


def test_the_gradient_of_all_weights_together_is_clipped_for_each_teacher() -> None:
    gradients = [torch.tensor([[3.0, 0.0], [0.3, 0.0]]), torch.tensor([[[4.0]], [[0.4]]])]
    found = noisy_gradient.aggregated(gradients, replace(QUIET, clip=1.0), torch.Generator())
    assert (2 * found[0]).tolist() == pytest.approx([0.6 + 0.3, 0.0], abs=1e-4)
    assert (2 * found[1]).tolist() == [pytest.approx([0.8 + 0.4], abs=1e-4)]


# Noisy knowledge.


@pytest.mark.parametrize(
    ("sort", "deviation", "tolerance"), [(Summand.NON_NEGATIVE, 3.5, 0.02), (Summand.VECTOR, 21.0, 0.03)]
)
def test_each_sample_is_asked_for_once_and_its_clipped_sum_is_noised_once(
    sort: Summand, deviation: float, tolerance: float
) -> None:
    known = world.knowledge(world.pool()[1])
    vectors = known.probabilities if sort is Summand.NON_NEGATIVE else known.hints_of(torch.arange(4))
    settings = replace(QUIET, noise=7.0, clip=0.5, hint_clip=3.0)
    rngs = [torch.Generator().manual_seed(seed) for seed in range(300)]
    draws = torch.stack([noisy_knowledge.FORM.release(vectors, sort, settings, rng) for rng in rngs])  # type: ignore[misc]
    assert draws.std(0).mean().item() == pytest.approx(deviation, rel=tolerance)


@pytest.mark.parametrize(
    ("vector", "nearest"),
    [
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
        ([9.0, -4.0, 0.0], [1.0, 0.0, 0.0]),
        ([0.9, 0.5, -3.0], [0.7, 0.3, 0.0]),
        ([0.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_the_nearest_distribution_by_hand(vector: list[float], nearest: list[float]) -> None:
    assert noisy_knowledge.nearest_distribution(torch.tensor(vector)).tolist() == pytest.approx(nearest, abs=1e-6)


# Clipping and settings.


def test_clipping_scales_long_vectors_alone_and_tells_nothing_of_what_is_no_number() -> None:
    vectors = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    found = clipped(vectors, 1.0)
    assert torch.allclose(found, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]).double(), atol=1e-4)
    assert (found.double().norm(dim=1) <= 1).all()
    broken = torch.tensor([[float("nan"), 1.0], [float("inf"), 1.0], [1e38, 1e38]])
    total = noisy_sum(broken, 1.0, 0.0, torch.Generator())
    assert total.isfinite().all()
    assert total.double().norm() <= 3


def test_one_of_many_teachers_changes_a_sum_by_at_most_twice_the_clip() -> None:
    vectors = torch.full((10_000, 200), 0.3)
    other = torch.cat([-vectors[:1], vectors[1:]])
    sums = [with_noise(clipped(each, 1.0).sum(0), 1.0, 0.0, torch.Generator()) for each in (vectors, other)]
    assert float((sums[0] - sums[1]).norm()) <= 2


@pytest.mark.parametrize(
    ("name", "releases"),
    [
        ("published", {Summand.LOSS: (2 + 3) * 4}),
        ("noisy-gradient", {Summand.VECTOR: (2 + 3) * 4}),
        ("noisy-knowledge", {Summand.NON_NEGATIVE: 100, Summand.VECTOR: 100}),
    ],
)
def test_what_is_released(name: str, releases: dict[Summand, int]) -> None:
    chosen = {**GIVEN, "hint_epochs": 2, "distillation_epochs": 3, "batch": 30, "samples": 100}
    settings = form(name).settled(chosen, 400, hints=True)
    assert form(name).releases(settings, 100) == releases
    bound = form(name).bound(settings, 1e-5)
    assert bound.queries == sum(releases.values())
    assert bound.kind is (Kind.CLAIMED if name == "published" else Kind.WORST_CASE)
    assert not bound.publishable
    assert form(name).bound(replace(settings, noise=0.0), 1e-5).epsilon == float("inf")


@pytest.mark.parametrize("name", FORMS.names())
def test_a_target_becomes_the_noise_that_keeps_it_and_impossible_settings_are_refused(name: str) -> None:
    settings = form(name).settled({"epsilon": 2.0, "delta": 1e-5}, 400, hints=False)
    assert settings.hint_epochs == 0
    assert 2.0 * (1 - 1e-9) <= form(name).bound(settings, 1e-5).epsilon <= 2.0
    with pytest.raises(PatebenchError, match="samples = 401 exceeds the 400 samples of the pool"):
        form(name).settled({**GIVEN, "samples": 401}, 400, hints=True)
    with pytest.raises(PatebenchError, match="the ensemble stores no hints"):
        form(name).settled({**GIVEN, "hint_epochs": 1}, 400, hints=False)


def test_hint_learning_trains_the_weights_up_to_the_guided_layer_alone() -> None:
    x, _ = world.pool()
    before = world.student(x)
    settings = replace(QUIET, distillation_epochs=0)
    after, _ = world.learnt(form("published"), settings)
    moved = {
        name.split(".")[0]
        for (name, one), other in zip(before.net.named_parameters(), after.net.parameters(), strict=True)
        if not torch.equal(one, other)
    }
    assert moved == {"block1", "block2"}
