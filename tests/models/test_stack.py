"""Compare stacks with networks that are trained one by one: random numbers, steps and predictions are equal."""

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.rounding import ROUNDING
from torch import nn

from patebench.models import make_learner
from patebench.models.architectures import mlp as perceptron
from patebench.models.architectures import small_cnn
from patebench.models.device import SWITCH, device
from patebench.models.network import Network
from patebench.models.recipes import MODERN, PAPER, PLAIN, Recipe
from patebench.models.stack import Stack, stackable

SEEDS = [3, 1, 4]


@pytest.fixture(autouse=True)
def single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "single")


def shards(sizes: list[int], shape: tuple[int, ...] = (1, 8, 8)) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return shards of these `sizes`; their brightness differs, and so does their standardisation."""
    rng = np.random.default_rng(0)
    return [
        (rng.integers(0, 80 + 60 * i, (size, *shape)).astype(np.uint8), rng.integers(0, 4, size))
        for i, size in enumerate(sizes)
    ]


def agreement(alone: list[Network], stack: Stack, unseen: np.ndarray) -> float:
    return float(np.mean(stack.predict(unseen) == np.stack([network.predict(unseen) for network in alone])))


def both(kind: Network, owned: list[tuple[np.ndarray, np.ndarray]]) -> tuple[list[Network], Stack]:
    """Return networks trained one by one, and a stack of the same networks trained at once."""
    alone = [Network(kind.build, kind.recipe, kind.classes) for _ in owned]
    for network, (x, y), seed in zip(alone, owned, SEEDS, strict=False):
        network.fit(x, y, seed=seed)
    stack = Stack(kind, owned, SEEDS[: len(owned)])
    stack.fit()
    return alone, stack


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[40, 40, 40], [33, 64, 40]], ids=["equal", "ragged"])
@pytest.mark.parametrize(
    "recipe",
    [
        replace(MODERN, epochs=2, bend=0.05),
        replace(MODERN, epochs=2, label_smoothing=0.1, ema=0.9),
        replace(PAPER, epochs=4, batch=32),
    ],
    ids=["bent", "smoothed", "sgd"],
)
def test_stacked_networks_are_those_trained_alone(recipe: Recipe, sizes: list[int]) -> None:
    alone, stack = both(Network(small_cnn, recipe, classes=4), shards(sizes))
    unseen = shards([200])[0][0]
    for position, network in enumerate(alone):
        for name, weights in network.net.named_parameters():
            torch.testing.assert_close(
                stack.weights[name][position].detach(), weights.detach(), rtol=0, atol=5e-4 + ROUNDING
            )
    thought = np.stack([network.log_probabilities(unseen) for network in alone])
    np.testing.assert_allclose(stack.log_probabilities(unseen), thought, atol=0.01)
    assert agreement(alone, stack, unseen) > 0.99


def test_tables_and_other_architectures_can_be_stacked() -> None:
    rng = np.random.default_rng(0)
    tables = [(rng.normal(size=(size, 5)).astype(np.float32), rng.integers(0, 3, size)) for size in (20, 25, 30)]
    alone, stack = both(Network(perceptron, replace(MODERN, epochs=3), classes=3), tables)
    unseen = rng.normal(size=(100, 5)).astype(np.float32)
    assert agreement(alone, stack, unseen) > 0.99
    for model in ("paper-cnn", "paper-cnn-deep"):
        kind: Network = make_learner(model, "plain", classes=4, epochs=1)  # type: ignore[assignment]
        alone, stack = both(kind, shards([10, 12, 14]))
        unseen = shards([50])[0][0]
        assert agreement(alone, stack, unseen) > 0.97


def test_reduced_precision_gives_the_same_teachers_but_for_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patebench.models.device.compute_dtype", lambda device: torch.bfloat16)
    owned = shards([33, 40, 40], (1, 20, 20))
    alone, stack = both(Network(small_cnn, replace(MODERN, epochs=1), classes=4), owned)
    assert stack.device_facts == alone[0].device_facts == {"device": device().type, "precision": "bfloat16"}
    unseen = shards([100], (1, 20, 20))[0][0]
    assert agreement(alone, stack, unseen) > 0.9


def test_hints_of_a_stack_are_those_of_its_networks() -> None:
    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        block = nn.Sequential(nn.Conv2d(shape[0], 3, 3, padding=1), nn.ReLU())
        classify = nn.Sequential(nn.Flatten(), nn.Linear(3 * shape[1] * shape[2], classes))
        return nn.Sequential(OrderedDict(block1=block, classify=classify))

    owned = shards([16, 16])
    alone, stack = both(Network(build, replace(PLAIN, epochs=1), classes=4), owned)
    unseen = owned[0][0]
    for network, found in zip(alone, stack.hints(unseen, "block1"), strict=True):
        np.testing.assert_allclose(found, network.hints(unseen, "block1"), atol=1e-4)


class Exploding(nn.Module):
    """Module that replaces standardised values above 3, which only one network receives, by ∞."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 3, torch.inf, x)


@pytest.mark.parametrize("sizes", [[40, 33, 50], [64, 64, 64]], ids=["ragged", "equal"])
@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("kind", ["table", "image"])
def test_what_is_not_finite_in_one_network_reaches_no_other(kind: str, position: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(0)

    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        layers = small_cnn(shape, classes) if kind == "image" else perceptron(shape, classes)
        return nn.Sequential(Exploding(), layers)

    def shard(size: int) -> tuple[np.ndarray, np.ndarray]:
        if kind == "table":
            return rng.integers(0, 2, (size, 5)).astype(np.float32), rng.integers(0, 3, size)
        return (255 * rng.integers(0, 2, (size, 1, 8, 8))).astype(np.uint8), rng.integers(0, 3, size)

    owned, template = [shard(size) for size in sizes], Network(build, replace(MODERN, epochs=2, scale=0.1), 3)
    unseen = shard(50)[0]
    x = np.zeros_like(owned[position][0])
    x.reshape(-1)[0] = 255
    others = [place for place in range(3) if place != position]
    found = []
    for own in (owned[position][0], x):
        owned[position] = own, owned[position][1]
        stack = Stack(template, owned, SEEDS)
        stack.fit()
        found.append(stack.log_probabilities(unseen))
    assert not np.isfinite(found[1][position]).all() or kind == "image"
    assert np.array_equal(found[0][others], found[1][others])
    assert np.isfinite(found[1][others]).all()


def test_layers_that_mix_a_batch_or_draw_are_not_stacked() -> None:
    assert stackable(small_cnn((1, 8, 8), 4))
    assert not stackable(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)))
    assert not stackable(nn.Sequential(nn.Linear(2, 2), nn.Dropout()))
