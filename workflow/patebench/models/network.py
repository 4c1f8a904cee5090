"""Training loop that all networks share, and outputs of their hidden layers (hints)."""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.core.progress import silent
from patebench.models import Progress
from patebench.models.augment import draw, move
from patebench.models.device import autocast, compute_dtype_for, device
from patebench.models.optimisers import SGD, AdamW, ema_copy, ema_update
from patebench.models.recipes import Recipe
from patebench.models.scaling import Standardise

#: Hints average the outputs of a layer over each cell of a `GRID` × `GRID` grid on the image, so that hints are small.
GRID = 2


def hint_layers(net: nn.Module, layer: str) -> nn.Sequential:
    """Return a module that computes hints: outputs of the hidden `layer` of `net`, averaged in each cell of a 2×2 grid.

    It maps samples to hints (samples, channels, `GRID`, `GRID`), which a student can learn from a teacher (FitNets:
    Romero et al. 2015). The module shares the weights of `net`. Raises PatebenchError if `net` has no such layer.
    """
    if layer not in (names := blocks(net)):
        fix = f"choose one of {', '.join(names)}" if names else "use the model conv-small or conv-middle"
        raise PatebenchError(f"this network has no layer '{layer}' for hints; {fix}")
    layers = OrderedDict(net.named_children())
    while next(reversed(layers)) != layer:
        layers.popitem()
    return nn.Sequential(layers | {"average": nn.AdaptiveAvgPool2d(GRID)})


def blocks(net: nn.Module) -> list[str]:
    """Return the names of the layers of `net` that can provide hints (averaged outputs): block1, block2 and so on."""
    names = [name for name, _ in net.named_children()] if isinstance(net, nn.Sequential) else []
    return [name for name in names if name.startswith("block")]


#: Function that builds an untrained network for the shape of a sample, (channels, height, width) or (features,), and
#: the number of classes.
Build = Callable[[tuple[int, ...], int], nn.Module]

#: Samples per batch in prediction on a CPU. Activations then fit into the cache; batches of 1000 take twice as long.
_PREDICT_BATCH = 100

#: The loss to minimise, from a batch's logits (samples, classes) and its labels (samples,).
Loss = Callable[[Tensor, Tensor], Tensor]


class Network:
    """Learner that builds a network of an architecture and trains it by a recipe."""

    def __init__(self, build: Build, recipe: Recipe, classes: int) -> None:
        self.build, self.recipe, self.classes = build, recipe, classes
        self.device = device()

    def fit(
        self,
        x: NDArray[Any],
        y: NDArray[np.integer],
        *,
        seed: int,
        progress: Progress = silent,
        loss: Loss | None = None,
    ) -> None:
        with seeded(seed):
            fitting = self.begin(x, y, seed=seed, loss=loss)
            for epoch in range(self.recipe.epochs):
                fitting.epoch()
                progress(epoch + 1, self.recipe.epochs)
            self.net = fitting.result

    def begin(self, x: NDArray[Any], y: NDArray[np.integer], *, seed: int, loss: Loss | None = None) -> "Fitting":
        """Build a new network and return its training (`Fitting`); the caller runs the epochs.

        The network is trained on samples `x` (samples, …) with labels `y` (samples,). `seed` seeds shuffling and
        augmentation; the initial weights come from torch's global generator. By default, `loss` is the cross-entropy
        with the recipe's label smoothing.
        """
        if self.recipe.oversample:
            x, y = oversampled(x, y)
        inputs, labels = torch.from_numpy(x).to(self.device), torch.from_numpy(y.astype(np.int64)).to(self.device)
        self.standardise = Standardise(inputs)
        self.net = self.build(x.shape[1:], self.classes)
        self.compute_dtype = compute_dtype_for(self.net, x.shape[1:], self.recipe, self.device)
        layout = torch.channels_last if x.ndim == 4 else torch.contiguous_format
        self.net = self.net.to(device=self.device, memory_format=layout)  # type: ignore[call-overload]
        return Fitting(self, self.standardise(inputs), labels, seed, loss)

    @torch.inference_mode()
    def logits(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Return unnormalised log-probabilities (samples, classes) for samples `x` (samples, …)."""
        return self._outputs(self.net, x, _PREDICT_BATCH if self.device.type == "cpu" else 10 * _PREDICT_BATCH)

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        return self.logits(x).argmax(1)

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        logits = torch.from_numpy(self.logits(x)).double()
        return logits.log_softmax(1).numpy()

    @torch.inference_mode()
    def hints(self, x: NDArray[Any], layer: str) -> NDArray[np.float32]:
        """Return the hints of a hidden `layer` for samples `x`, flattened to (samples, features); see `hint_layers`."""
        return self._outputs(hint_layers(self.net, layer), x, _PREDICT_BATCH)

    def _outputs(self, net: nn.Module, x: NDArray[Any], batch: int) -> NDArray[np.float32]:
        """Return the outputs of `net` for samples `x`, flattened to (samples, features).

        `batch` is the number of samples that are computed at once.
        """
        net.eval()
        batches = torch.from_numpy(x).split(batch)  # type: ignore[no-untyped-call]
        with autocast(self.device, self.compute_dtype):
            outputs = [net(self.standardise(part.to(self.device))).float().flatten(1).cpu() for part in batches]
        return torch.cat(outputs).numpy()

    @property
    def device_facts(self) -> dict[str, str]:
        return device_facts(self.device, self.compute_dtype)


class Fitting:
    """Training of `network.net` on standardised samples `x` with labels `y`, epoch by epoch."""

    def __init__(self, network: Network, x: Tensor, y: Tensor, seed: int, loss: Loss | None) -> None:
        self.net, self.recipe, self.x, self.y = network.net, network.recipe, x, y
        self.background, self.compute_dtype = network.standardise.background, network.compute_dtype
        net, recipe = self.net, self.recipe
        self.loss = loss or partial(F.cross_entropy, label_smoothing=recipe.label_smoothing)
        self.rng = torch.Generator().manual_seed(seed)
        self.optimiser, self.schedule = optimisation(net.parameters(), recipe, steps(len(x), recipe))
        self.ema = None if recipe.ema is None else ema_copy(net)
        parts: dict[str, Any] = {"net": net, "optimiser": self.optimiser, "schedule": self.schedule, "ema": self.ema}
        self._stateful = {name: part for name, part in parts.items() if part is not None}

    def epoch(self) -> float:
        """Train on all samples once; return the mean loss over the batches."""
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
        with autocast(samples.device, self.compute_dtype):
            logits = self.net(samples)
        loss = self.loss(logits.float(), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.schedule.step()
        if self.ema is not None and self.recipe.ema is not None:
            ema_update(self.ema, self.net, self.schedule.last_epoch, self.recipe.ema)
        return loss.detach()

    @property
    def result(self) -> nn.Module:
        """Return the network for predictions: with averaged weights if the recipe has an `ema`, else without."""
        return self.net if self.ema is None else self.ema

    def state(self) -> dict[str, Any]:
        """Return the training's state (weights, optimiser, schedule, generator), from which `restore` continues."""
        return {name: part.state_dict() for name, part in self._stateful.items()} | {"rng": self.rng.get_state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue the training from `state`, which the method `state` returned."""
        for name, part in self._stateful.items():
            part.load_state_dict(state[name])
        self.rng.set_state(state["rng"])


def device_facts(device: torch.device, compute_dtype: torch.dtype) -> dict[str, str]:
    """Return {"device": device type, "precision": name of the dtype}, such as "cuda" and "bfloat16", for records.

    Device and dtype are recorded because their rounding influences predictions.
    """
    return {"device": device.type, "precision": str(compute_dtype).removeprefix("torch.")}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator, which draws initial weights, within the context; restore its state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def oversampled(x: NDArray[Any], y: NDArray[np.integer]) -> tuple[NDArray[Any], NDArray[np.integer]]:
    """Return samples `x` and labels `y` after repeating samples of the smaller classes until classes have equal size.

    Classes without samples stay empty, no sample is left out, and balanced data are unchanged.
    """
    counts = np.bincount(y)
    rows = [np.resize(np.flatnonzero(y == label), counts.max()) for label in np.flatnonzero(counts)]
    if all(count in (0, counts.max()) for count in counts):
        return x, y
    together = np.concatenate(rows)
    return x[together], y[together]


def steps(samples: int, recipe: Recipe) -> int:
    """Return the total number of optimiser steps in all epochs of `recipe` for `samples` training samples."""
    return recipe.epochs * math.ceil(samples / recipe.batch)


def shuffle(samples: int, recipe: Recipe, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the random order of the samples in one epoch, and the random numbers for their augmentation.

    The order (samples,) contains positions of samples. Row i of the random numbers (samples, numbers) augments the i-th
    sample in this order (see `augment.draw`). Without augmentation in `recipe`, the rows are empty.
    """
    order = torch.randperm(samples, generator=rng)
    return order, draw(samples, recipe, rng) if recipe.augments else torch.empty(samples, 0)


def optimisation(
    weights: Iterable[Tensor], recipe: Recipe, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """Return the optimiser of `weights` by `recipe`, and its learning-rate schedule for `steps` training steps."""
    algorithm = SGD if recipe.optimiser == "sgd" else AdamW
    optimiser = algorithm(weights, recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True)
    if recipe.schedule == "one-cycle" and steps > 1:
        return optimiser, torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.learning_rate, total_steps=steps + 1)
    return optimiser, torch.optim.lr_scheduler.ConstantLR(optimiser, factor=1.0)
