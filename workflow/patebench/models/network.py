"""The training loop that all networks share, written to be read in one sitting."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.files import atomic
from patebench.models.augment import random_affine
from patebench.models.device import device
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


#: What is minimised: the loss of a batch's logits (samples, classes) for its labels (samples,).
Loss = Callable[[Tensor, Tensor], Tensor]


class Network:
    """A learner made of an architecture and a recipe."""

    def __init__(self, build: Build, recipe: Recipe, classes: int) -> None:
        self.build, self.recipe, self.classes = build, recipe, classes
        self.device = device()

    def fit(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, progress: Progress | None = None) -> None:
        # The initial weights come from torch's global generator: fork it, so that a learner leaves no trace on others.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fitting = self.begin(x, y, seed=seed)
            for epoch in range(self.recipe.epochs):
                fitting.epoch()
                if progress:
                    progress(epoch + 1, self.recipe.epochs)
            self.net = fitting.result

    def begin(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, loss: Loss | None = None) -> "Fitting":
        """The fit of `x` and `y` before its first epoch, for those who go epoch by epoch; see `fit`."""
        inputs, labels = torch.from_numpy(x).to(self.device), torch.from_numpy(y.astype(np.int64)).to(self.device)
        self.standardise = Standardise(inputs)
        self.net = self.build(tuple(x.shape[1:]), self.classes).to(self.device)
        self.net = self.net.to(memory_format=torch.channels_last) if x.ndim == 4 else self.net  # type: ignore[call-overload]
        background = float(self.standardise(torch.zeros_like(inputs[:1])).min())
        return Fitting(self.net, self.recipe, self.standardise(inputs), labels, background, seed, loss)

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

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        logits = torch.from_numpy(self.logits(x)).double()
        probabilities: NDArray[np.float64] = logits.log_softmax(1).numpy()
        return probabilities

    def save(self, path: Path) -> None:
        with atomic(path) as temporary:
            torch.save({"net": self.net.state_dict(), "standardise": self.standardise.state_dict()}, temporary)


class Fitting:
    """One fit of a network to standardised samples, epoch by epoch."""

    def __init__(
        self, net: nn.Module, recipe: Recipe, x: Tensor, y: Tensor, background: float, seed: int, loss: Loss | None
    ) -> None:
        self.net, self.recipe, self.x, self.y, self.background = net, recipe, x, y, background
        self.loss = loss or partial(F.cross_entropy, label_smoothing=recipe.label_smoothing)
        self.rng = torch.Generator().manual_seed(seed)
        self.optimiser, self.schedule = _optimiser(net, recipe, recipe.epochs * math.ceil(len(x) / recipe.batch))
        self.average = _average(net, recipe)

    def epoch(self) -> float:
        """Pass once over all samples; the mean loss of its batches."""
        self.net.train()
        losses = [
            self._step(self.x[batch], self.y[batch]) for batch in _batches(len(self.x), self.recipe.batch, self.rng)
        ]
        return float(torch.stack(losses).mean())

    def _step(self, samples: Tensor, labels: Tensor) -> Tensor:
        if self.recipe.augments and samples.ndim == 4:
            samples = random_affine(samples, self.recipe, self.rng, fill=self.background)
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.loss(self.net(samples), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.schedule.step()
        if self.average is not None:
            self.average.update_parameters(self.net)
        return loss.detach()

    @property
    def result(self) -> nn.Module:
        """The network that predicts: the average of the weights where the recipe asks for it."""
        return self.net if self.average is None else self.average.module

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the fit depends on."""
        parts: dict[str, Any] = {
            "net": self.net,
            "optimiser": self.optimiser,
            "schedule": self.schedule,
            "average": self.average,
        }
        state = {name: part.state_dict() for name, part in parts.items() if part is not None}
        return {**state, "rng": self.rng.get_state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.net.load_state_dict(state["net"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.load_state_dict(state["schedule"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.rng.set_state(state["rng"])


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
