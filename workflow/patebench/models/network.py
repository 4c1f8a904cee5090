"""The training loop that all networks share, written to be read in one sitting."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.files import atomic
from patebench.models.augment import draw, move
from patebench.models.average import follow, follower
from patebench.models.device import device
from patebench.models.learner import Progress
from patebench.models.precision import factors_for, products
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

    @property
    def background(self) -> float:
        """What becomes of the value 0, black, in the channel where that is least."""
        return float((-self.mean / self.spread).min())


#: What is minimised: the loss of a batch's logits (samples, classes) for its labels (samples,).
Loss = Callable[[Tensor, Tensor], Tensor]


class Network:
    """A learner made of an architecture and a recipe."""

    def __init__(self, build: Build, recipe: Recipe, classes: int) -> None:
        self.build, self.recipe, self.classes = build, recipe, classes
        self.device = device()

    def fit(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, progress: Progress | None = None) -> None:
        with seeded(seed):
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
        self.net = self.build(tuple(x.shape[1:]), self.classes)
        self.factors = factors_for(self.net, tuple(x.shape[1:]), self.recipe, self.device)
        layout = torch.channels_last if x.ndim == 4 else torch.contiguous_format
        self.net = self.net.to(device=self.device, memory_format=layout)  # type: ignore[call-overload]
        samples = self.standardise(inputs)
        return Fitting(self.net, self.recipe, samples, labels, self.standardise.background, seed, self.factors, loss)

    @torch.inference_mode()
    def logits(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Unnormalised log-probabilities (samples, classes)."""
        self.net.eval()
        size = _PREDICT_BATCH if self.device.type == "cpu" else 10 * _PREDICT_BATCH
        batches = torch.from_numpy(x).split(size)  # type: ignore[no-untyped-call]
        with products(self.device, self.factors):
            answers = [self.net(self.standardise(batch.to(self.device))).float().cpu() for batch in batches]
        return torch.cat(answers).numpy()

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        labels: NDArray[np.int64] = self.logits(x).argmax(1)
        return labels

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        logits = torch.from_numpy(self.logits(x)).double()
        probabilities: NDArray[np.float64] = logits.log_softmax(1).numpy()
        return probabilities

    def save(self, path: Path) -> None:
        keep(path, self.net.state_dict(), self.standardise)

    @property
    def manner(self) -> dict[str, str]:
        return manner(self.device, self.factors)


class Fitting:
    """One fit of a network to standardised samples, epoch by epoch."""

    def __init__(
        self,
        net: nn.Module,
        recipe: Recipe,
        x: Tensor,
        y: Tensor,
        background: float,
        seed: int,
        factors: torch.dtype,
        loss: Loss | None,
    ) -> None:
        self.net, self.recipe, self.x, self.y, self.background, self.factors = net, recipe, x, y, background, factors
        self.loss = loss or partial(F.cross_entropy, label_smoothing=recipe.label_smoothing)
        self.rng = torch.Generator().manual_seed(seed)
        self.optimiser, self.schedule = optimisation(net.parameters(), recipe, steps(len(x), recipe))
        self.average = None if recipe.average is None else follower(net)

    def epoch(self) -> float:
        """Pass once over all samples; the mean loss of its batches."""
        self.net.train()
        order, draws = (
            drawn.to(self.x.device).split(self.recipe.batch)  # type: ignore[no-untyped-call]
            for drawn in shuffle(len(self.x), self.recipe, self.rng)
        )
        losses = [self._step(self.x[rows], self.y[rows], moves) for rows, moves in zip(order, draws, strict=True)]
        return float(torch.stack(losses).mean())

    def _step(self, samples: Tensor, labels: Tensor, draws: Tensor) -> Tensor:
        if self.recipe.augments and samples.ndim == 4:
            samples = move(samples, draws, self.recipe, fill=self.background)
        self.optimiser.zero_grad(set_to_none=True)
        with products(samples.device, self.factors):
            logits = self.net(samples)
        loss = self.loss(logits.float(), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.schedule.step()
        if self.average is not None and self.recipe.average is not None:
            follow(self.average, self.net, self.schedule.last_epoch, self.recipe.average)
        return loss.detach()

    @property
    def result(self) -> nn.Module:
        """The network that predicts: the average of the weights where the recipe asks for it."""
        return self.net if self.average is None else self.average

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


def keep(path: Path, weights: dict[str, Tensor], standardise: Standardise) -> None:
    """Write all that a fitted network needs to be asked again."""
    with atomic(path) as temporary:
        torch.save({"net": weights, "standardise": standardise.state_dict()}, temporary)


def manner(device: torch.device, factors: torch.dtype) -> dict[str, str]:
    """Where a network is trained and in which numbers it multiplies: facts that change its answers by rounding."""
    return {"device": device.type, "precision": str(factors).removeprefix("torch.")}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's global generator, from which initial weights come, starts from `seed`; nobody else notices."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def steps(samples: int, recipe: Recipe) -> int:
    """How many steps a network takes that learns from so many samples."""
    return recipe.epochs * math.ceil(samples / recipe.batch)


def shuffle(samples: int, recipe: Recipe, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """What one epoch draws: the order of the samples, and in that order a row for the map of each; see `augment`."""
    order = torch.randperm(samples, generator=rng)
    return order, draw(samples, recipe, rng) if recipe.augments else torch.empty(samples, 0)


def optimisation(
    weights: Iterable[Tensor], recipe: Recipe, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """What changes the weights, element by element, and what changes its learning rate."""
    algorithm = torch.optim.SGD if recipe.optimiser == "sgd" else torch.optim.AdamW
    optimiser = algorithm(weights, recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True)
    if recipe.schedule == "one-cycle" and steps > 1:
        return optimiser, torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.learning_rate, total_steps=steps + 1)
    return optimiser, torch.optim.lr_scheduler.ConstantLR(optimiser, factor=1.0)
