"""Test that all registered learners fit, predict and are reproducible; compare shared parts with definitions."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from tests.students.world import images
from torch import nn

from patebench.core.errors import PatebenchError
from patebench.models import MODELS, make_learner, on_queries
from patebench.models.architectures import ChannelNormalise
from patebench.models.augment import random_affine
from patebench.models.network import oversampled
from patebench.models.recipes import Recipe


@pytest.mark.slow
@pytest.mark.parametrize("model", [name for name in MODELS if not on_queries(name)])
def test_every_model_learns_an_easy_task(model: str) -> None:
    x, y = images(120, seed=0)
    unseen, truth = images(100, seed=1)
    learner = make_learner(model, "modern", classes=4, epochs=5 if model == "conv-middle" else 12)
    learner.fit(x, y, seed=7)
    assert np.mean(learner.predict(unseen) == truth) > 0.9


@pytest.mark.parametrize("model", ["small-cnn", "mlp", "random-forest"])
def test_a_seed_repeats_predictions_and_leaves_the_global_generator_alone(model: str) -> None:
    x, y = images(60, seed=0)
    unseen = np.random.default_rng(5).integers(0, 255, (400, 1, 8, 8)).astype(np.uint8)
    found = []
    for seed in (1, 1, 2):
        before = torch.get_rng_state()
        learner = make_learner(model, "modern", classes=4, epochs=2)
        learner.fit(x, y, seed=seed)
        assert torch.equal(torch.get_rng_state(), before)
        found.append(learner.predict(unseen))
        torch.rand(17)  # others' draws must not matter
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_oversampling_repeats_rare_classes_and_leaves_no_sample_out() -> None:
    y = np.array([0] * 7 + [2] * 2 + [3] * 3)
    x = np.arange(12)[:, None]
    samples, labels = oversampled(x, y)
    assert np.bincount(labels).tolist() == [7, 0, 7, 7]
    assert set(samples[:, 0]) == set(range(12))
    assert np.array_equal(y[samples[:, 0]], labels)
    for again in (samples, labels), (x[7:9], y[7:9]):
        assert np.array_equal(oversampled(*again)[0], again[0]), "nothing is rarer than the rest"


def test_a_recipe_that_oversamples_trains_on_as_many_of_each_class() -> None:
    x, _ = images(12, seed=0)
    y = np.array([0] * 9 + [1] * 3)
    repeated, one_more = np.concatenate([x, x[9:], x[9:]]), np.concatenate([y, y[9:], y[9:]])
    networks = [make_learner("mlp", recipe, classes=2, epochs=2) for recipe in ("plain-oversampled", "plain")]
    networks[0].fit(x, y, seed=3)
    networks[1].fit(repeated, one_more, seed=3)
    assert np.allclose(networks[0].log_probabilities(x), networks[1].log_probabilities(x))


@pytest.mark.parametrize("model", ["logistic", "random-forest", "linear-head", "small-cnn"])
@pytest.mark.parametrize("label", [0, 2])
def test_a_shard_of_one_class_is_no_obstacle(model: str, label: int) -> None:
    x, _ = images(10, seed=0)
    learner = make_learner(model, "modern", classes=4, epochs=8)
    learner.fit(x, np.full(10, label), seed=0)
    assert (learner.predict(x) == label).all()
    assert np.isneginf(learner.log_probabilities(x)[:, 1]).all() or model == "small-cnn"


@pytest.mark.parametrize("model", ["small-cnn", "student-cnn", "paper-cnn", "paper-cnn-deep", "conv-small"])
def test_architectures_fit_all_image_sizes_and_refuse_tables_in_one_line(model: str) -> None:
    for shape, classes in (((3, 32, 32), 10), ((1, 28, 28), 7), ((1, 8, 8), 10)):
        net = make_learner(model, "paper", classes=classes).build(shape, classes)  # type: ignore[attr-defined]
        assert net(torch.zeros(2, *shape)).shape == (2, classes)
    words = rf"the model '{model}' requires images.*use mlp, logistic or random-forest"
    with pytest.raises(PatebenchError, match=words):
        make_learner(model, "paper", classes=2).fit(np.zeros((4, 3), np.float32), np.array([0, 1, 0, 1]), seed=0)


def test_paper_cnn_has_the_published_layers() -> None:
    """conv 5×5×64, conv 5×5×128, FC 384, 192, 10: parameters counted by hand for 28×28 images of one channel."""
    net = make_learner("paper-cnn", "paper", classes=10).build((1, 28, 28), 10)  # type: ignore[attr-defined]
    by_hand = (25 * 64 + 64) + (25 * 64 * 128 + 128) + (7 * 7 * 128 * 384 + 384) + (384 * 192 + 192) + (192 * 10 + 10)
    assert sum(weights.numel() for weights in net.parameters()) == by_hand


def test_channel_normalisation_equals_torchs_own() -> None:
    x = torch.randn(3, 64, 5, 5, generator=torch.Generator().manual_seed(0)) * 20
    torch.testing.assert_close(ChannelNormalise(64)(x), nn.LocalResponseNorm(9, alpha=1e-3, beta=0.75, k=1.0)(x))


def still(**changes: float) -> Recipe:
    return Recipe(optimiser="sgd", learning_rate=0.1, batch=4, epochs=1, **changes)


def test_no_augmentation_is_the_identity_and_fill_is_respected() -> None:
    x = torch.rand(5, 1, 9, 9, generator=torch.Generator().manual_seed(1))
    same = random_affine(x, still(), torch.Generator().manual_seed(0), fill=-1.0)
    torch.testing.assert_close(same, x)
    moved = random_affine(torch.ones_like(x), still(shift=2.0), torch.Generator().manual_seed(0), fill=-1.0)
    assert moved.min() == -1.0


def test_rotation_moves_a_point_by_the_angle_drawn() -> None:
    x = torch.zeros(1, 1, 41, 41)
    x[0, 0, 20, 36] = 1.0  # 16 pixels to the right of the centre
    rng = torch.Generator().manual_seed(4)
    angle = math.radians(30.0) * float((torch.rand((6, 1), generator=torch.Generator().manual_seed(4)) * 2 - 1)[0])
    turned = random_affine(x, still(rotation=30.0), rng, fill=0.0)[0, 0]
    row, column = divmod(int(turned.argmax()), 41)
    assert abs(math.atan2(row - 20, column - 20)) == pytest.approx(abs(angle), abs=0.06)
    assert math.hypot(row - 20, column - 20) == pytest.approx(16, abs=1)


# The linear head.


def test_the_penalty_has_the_least_leave_one_out_error() -> None:
    """Compare with a loop that fits the regression again without each sample."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 20)
    x, targets = rng.normal(size=(20, 6)) + np.eye(6)[y], np.eye(3)[y]
    errors = {}
    for penalty in 10.0 ** np.arange(-3, 2.5, 0.5):
        left = [np.arange(20) != i for i in range(20)]
        residuals = [targets[i] - _centred_ridge(x, targets, penalty, kept)(x[i]) for i, kept in enumerate(left)]
        errors[penalty] = np.square(residuals).mean()
    expected = 10 * Ridge(alpha=min(errors, key=errors.__getitem__)).fit(x, targets).predict(x)
    expected -= np.logaddexp.reduce(expected, axis=1, keepdims=True)
    head = make_learner("linear-head", "plain", classes=3)
    head.fit(x, y, seed=0)
    np.testing.assert_allclose(head.log_probabilities(x), expected, atol=1e-8)


def _centred_ridge(x, targets, penalty, kept):  # type: ignore[no-untyped-def]
    """Fit with the mean of all samples, which counts as one parameter: the leave-one-out formula shares this centre."""
    ones = np.column_stack([np.ones(len(x)), x - x.mean(axis=0)])
    penalties = np.diag([0.0, *[penalty] * x.shape[1]])
    weights = np.linalg.solve(ones[kept].T @ ones[kept] + penalties, ones[kept].T @ targets[kept])
    return lambda sample: np.concatenate([[1.0], sample - x.mean(axis=0)]) @ weights
