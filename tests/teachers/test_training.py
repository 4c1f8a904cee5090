"""Test that teachers do not depend on how they are trained: one by one, in stacks, or in halves of stacks."""

from functools import partial

import numpy as np
import pytest
import torch

from patebench.models import make_learner
from patebench.models.device import SWITCH
from patebench.models.stack import Stack
from patebench.teachers.teacher_outputs import TeacherOutputs
from patebench.teachers.teacher_training import SingleTeacher, train

#: Two numbers of batches of 32 among four shards.
SIZES = [30, 32, 33, 28]


@pytest.fixture(autouse=True)
def single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "single")


def votes(model: str, stacked: bool | None) -> tuple[np.ndarray, list[list[int]], list[int], list[type]]:
    """Return the votes of four teachers, the groups trained at once, the progress, and the types of teachers."""
    rng = np.random.default_rng(0)
    shards = [(rng.integers(0, 200, (n, 1, 8, 8)).astype(np.uint8), np.arange(n) % 4) for n in SIZES]
    unseen = rng.integers(0, 200, (150, 1, 8, 8)).astype(np.uint8)
    found, ready, progress, kinds = np.full((4, 150), -1), [], [], []
    kind = partial(make_learner, model, "modern", classes=4, epochs=3)
    for positions, teachers in train(kind, shards, [5, 6, 7, 8], progress.append, stacked=stacked):
        found[positions] = teachers.predict(unseen)
        ready.append(positions)
        kinds.append(type(teachers))
    return found, ready, progress, kinds


def test_stacks_hold_shards_of_as_many_steps_and_change_no_vote() -> None:
    alone, one_by_one, counted, _ = votes("small-cnn", stacked=False)
    stacked, groups, epochs, kinds = votes("small-cnn", stacked=True)
    assert one_by_one == [[0], [1], [2], [3]]
    assert counted == [1, 2, 3, 4]
    assert groups == [[0, 1, 3], [2]]
    assert kinds == [Stack, Stack]
    assert epochs == [1, 2, 3, 3, 3, 4]
    assert np.mean(stacked == alone) > 0.99


def test_what_does_not_fit_into_memory_is_halved_and_a_single_teacher_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, _, _, _ = votes("small-cnn", stacked=True)
    fit, most = Stack.fit, 1

    def cramped(self: Stack, *arguments: object) -> None:
        if len(self.sizes) > most:
            raise torch.OutOfMemoryError
        fit(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Stack, "fit", cramped)
    parts, groups, progress, _ = votes("small-cnn", stacked=True)
    assert groups == [[0], [1], [3], [2]]
    assert progress[-1] == 4
    assert progress == sorted(progress)
    assert np.mean(parts == whole) > 0.99
    most = 0
    with pytest.raises(torch.OutOfMemoryError):
        votes("small-cnn", stacked=True)


@pytest.mark.slow
def test_without_a_gpu_and_for_other_learners_teachers_are_trained_one_by_one() -> None:
    for model, stacked in (("mlp", None), ("logistic", True)):
        found, _, _, kinds = votes(model, stacked)
        if not torch.cuda.is_available() or model == "logistic":
            assert kinds == [SingleTeacher] * 4
        assert found.min() >= 0


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mlp", "small-cnn"])
@pytest.mark.parametrize("more", [1, 4, 40])
def test_records_of_one_shard_change_no_other_teacher_of_a_stack(model: str, more: int) -> None:
    """Other teachers are equal bit for bit, even if the changed shard has another number of training steps."""
    rng = np.random.default_rng(0)
    shape, kind = ((5,), np.float32) if model == "mlp" else ((1, 8, 8), np.uint8)
    shards = [(rng.integers(0, 200, (n, *shape)).astype(kind), np.arange(n) % 4) for n in SIZES]
    unseen, added = (rng.integers(0, 200, (n, *shape)).astype(kind) for n in (50, more))
    make = partial(make_learner, model, "plain", classes=4, epochs=2)

    def thoughts(changed: int | None) -> np.ndarray:
        owned = list(shards)
        if changed is not None:
            x, y = shards[changed]
            owned[changed] = np.concatenate([x, added]), np.resize(y, len(x) + more)
        found = np.zeros((4, 50, 4))
        for positions, teachers in train(make, owned, [5, 6, 7, 8], lambda ready: None, stacked=True):
            found[positions] = teachers.log_probabilities(unseen)
        return found

    before = thoughts(None)
    for changed in range(4):
        differs = [not np.array_equal(*both) for both in zip(thoughts(changed), before, strict=True)]
        assert differs == [i == changed for i in range(4)]


def test_oversampled_shards_of_unequal_size_are_trained_in_stacks() -> None:
    rng = np.random.default_rng(0)
    labels = [np.array([0] * (n - 4) + [1] * 4) for n in (20, 40)]
    shards = [(rng.integers(0, 200, (len(y), 1, 8, 8)).astype(np.uint8), y) for y in labels]
    kind = partial(make_learner, "small-cnn", "modern-oversampled", classes=2, epochs=1)
    groups = [positions for positions, _ in train(kind, shards, [1, 2], lambda ready: None, stacked=True)]
    assert groups == [[0], [1]], "32 and 72 samples are one batch and three"


class Diverged:
    """Three teachers, of which the second one returns only NaN."""

    said = np.log([[[0.5, 0.5], [0.9, 0.1]], [[np.nan, np.nan]] * 2, [[1.0, 1e-300], [0.2, 0.8]]])

    def log_probabilities(self, x: np.ndarray) -> np.ndarray:
        return self.said

    def hints(self, x: np.ndarray, layer: str) -> np.ndarray:
        return np.where(np.isnan(self.said), [np.nan, np.inf], self.said)


def test_a_teacher_that_diverged_is_undecided_and_leaves_others_alone() -> None:
    outputs = TeacherOutputs([1, 3], "layer")
    outputs.add([0, 1, 2], Diverged(), np.zeros((2, 1)))  # type: ignore[arg-type]
    kept = outputs.arrays()
    np.testing.assert_allclose(kept["soft"][0], [[2, 1], [1.6, 1.4]], rtol=1e-6)
    np.testing.assert_allclose(kept["probabilities"][1], 0.5)
    np.testing.assert_allclose(kept["probabilities"][2], [[1, 0], [0.2, 0.8]], rtol=1e-6)
    assert np.isfinite(kept["hints"]).all()
