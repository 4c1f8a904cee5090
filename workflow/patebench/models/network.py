"""The training loop that all networks share, written to be read in one sitting."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.files import atomic
from patebench.models.augment import random_affine
from patebench.models.learner import Progress
from patebench.models.recipes import Recipe

#: Makes an untrained network for samples of a shape (channels, height, width) or (features,) and a number of classes.
Build = Callable[[tuple[int, ...], int], nn.Module]

#: Small enough for the activations to stay in a core's cache: twice as fast as 1000 on a CPU.
_PREDICT_BATCH = 100


class Standardise(nn.Module):
    """Subtract the mean and divide by the spread of the samples that the network was fitted on: its own shard only."""

    mean: Tensor
    spread: Tensor

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        x = x.float()
        axes = (0,) if x.ndim == 2 else (0, 2, 3)  # per feature of a table, per channel of an image
        self.register_buffer("mean", x.mean(axes, keepdim=True))
        self.register_buffer("spread", x.std(axes, keepdim=True, correction=0).clamp_min(1e-6))

    def forward(self, x: Tensor) -> Tensor:
        return (x.float() - self.mean) / self.spread


class Network:
    """A learner made of an architecture and a recipe."""

    def __init__(self, build: Build, recipe: Recipe, classes: int) -> None:
        self.build, self.recipe, self.classes = build, recipe, classes
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def fit(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, progress: Progress | None = None) -> None:
        # The initial weights come from torch's global generator: fork it, so that a learner leaves no trace on others.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            inputs, labels = torch.from_numpy(x).to(self.device), torch.from_numpy(y.astype(np.int64)).to(self.device)
            self.standardise = Standardise(inputs)
            self.net = self.build(tuple(x.shape[1:]), self.classes).to(self.device)
            self.net = self.net.to(memory_format=torch.channels_last) if x.ndim == 4 else self.net  # type: ignore[call-overload]
            self._train(inputs, labels, torch.Generator().manual_seed(seed), progress)

    def _train(self, x: Tensor, y: Tensor, rng: torch.Generator, progress: Progress | None) -> None:
        recipe = self.recipe
        x, background = self.standardise(x), float(self.standardise(torch.zeros_like(x[:1])).min())
        steps = recipe.epochs * math.ceil(len(x) / recipe.batch)
        optimiser, schedule = _optimiser(self.net, recipe, steps)
        average = _average(self.net, recipe)
        self.net.train()
        for epoch in range(recipe.epochs):
            for batch in _batches(len(x), recipe.batch, rng):
                samples = x[batch]
                if recipe.augments and samples.ndim == 4:
                    samples = random_affine(samples, recipe, rng, fill=background)
                optimiser.zero_grad(set_to_none=True)
                loss = F.cross_entropy(self.net(samples), y[batch], label_smoothing=recipe.label_smoothing)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                schedule.step()
                if average is not None:
                    average.update_parameters(self.net)
            if progress:
                progress(epoch + 1, recipe.epochs)
        if average is not None:
            self.net = average.module

    @torch.inference_mode()
    def logits(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Unnormalised log-probabilities (samples, classes)."""
        self.net.eval()
        size = _PREDICT_BATCH if self.device.type == "cpu" else 10 * _PREDICT_BATCH
        batches = torch.from_numpy(x).split(size)  # type: ignore[no-untyped-call]
        return torch.cat([self.net(self.standardise(batch.to(self.device))).cpu() for batch in batches]).float().numpy()

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        labels: NDArray[np.int64] = self.logits(x).argmax(1)
        return labels

    def save(self, path: Path) -> None:
        with atomic(path) as temporary:
            torch.save({"net": self.net.state_dict(), "standardise": self.standardise.state_dict()}, temporary)


def _batches(samples: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    yield from torch.randperm(samples, generator=rng).split(size)  # type: ignore[no-untyped-call]


def _optimiser(
    net: nn.Module, recipe: Recipe, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    optimiser: torch.optim.Optimizer
    if recipe.optimiser == "sgd":
        optimiser = torch.optim.SGD(net.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay)
    else:
        optimiser = torch.optim.AdamW(
            net.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay, foreach=True
        )
    if recipe.schedule == "one-cycle" and steps > 1:
        return optimiser, torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.learning_rate, total_steps=steps + 1)
    return optimiser, torch.optim.lr_scheduler.ConstantLR(optimiser, factor=1.0)


def _average(net: nn.Module, recipe: Recipe) -> torch.optim.swa_utils.AveragedModel | None:
    if recipe.average is None:
        return None
    decay = recipe.average

    def update(averaged: Tensor, current: Tensor, taken: Tensor | int) -> Tensor:
        # TensorFlow's ramp min(decay, (1 + t)/(10 + t)), so that short runs do not average in the initial weights.
        weight = min(decay, (1.0 + float(taken)) / (10.0 + float(taken)))
        return weight * averaged + (1.0 - weight) * current

    return torch.optim.swa_utils.AveragedModel(net, avg_fn=update)
