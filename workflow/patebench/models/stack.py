"""Train many networks of one architecture and recipe at once, each on its own shard.

Weights are stacked along a first axis, so one call computes a training step of all networks, which uses a GPU well.
Each network has its own random generator. Up to rounding, each network equals the one that `Network.fit` trains on the
same shard with the same seed.

The result of a network does not depend on the shards of other networks, not even in the last digit. The shapes of
arrays can influence rounding, so every batch is padded to the recipe's batch size. The padding repeats a sample of the
same network, and the loss does not include the padding. Infinite numbers in one network do not influence other networks
(`_Finite`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap

from patebench.core.progress import silent
from patebench.models import Progress
from patebench.models.augment import move
from patebench.models.device import autocast, compute_dtype_for
from patebench.models.network import (
    Network,
    device_facts,
    hint_layers,
    optimisation,
    seeded,
    shuffle,
    steps,
)
from patebench.models.optimisers import ema_update_tensors
from patebench.models.scaling import Standardise, standardised

#: Samples and labels of one teacher's shard.
Shard = tuple[NDArray[Any], NDArray[np.integer]]

#: Number of samples in one batch of `Stack.predict`, summed over the networks; it limits the memory for activations.
_AT_ONCE = 1 << 15

#: Layers that cannot be stacked, because they mix samples with padding or use one random generator for all networks.
_UNSTACKABLE = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


def stackable(net: nn.Module) -> bool:
    """Return True if networks with the layers of `net` can be trained together as a `Stack`."""
    return not any(isinstance(module, _UNSTACKABLE) for module in net.modules())


class Stack:
    """Networks that are trained together. Network i is trained on `shards[i]` with the seed `seeds[i]`.

    Parameters
    ----------
    template : network whose architecture and recipe all networks have
    shards : samples and labels of each network. ValueError is raised unless all networks have the same number of
        training steps
    seeds : seed of each network
    shown : positions of the networks whose results the methods return; None for all networks
    """

    def __init__(
        self, template: Network, shards: Sequence[Shard], seeds: Sequence[int], shown: Sequence[int] | None = None
    ) -> None:
        self.recipe, self.device = template.recipe, template.device
        self.sizes, self.shown = [len(y) for _, y in shards], list(range(len(shards)) if shown is None else shown)
        (self.steps,) = {steps(size, self.recipe) for size in self.sizes}
        samples = [torch.from_numpy(x).to(self.device) for x, _ in shards]
        self.standardise = [Standardise(x) for x in samples]
        self.x = torch.cat([each(x) for each, x in zip(self.standardise, samples, strict=True)])
        self.y = torch.from_numpy(np.concatenate([y for _, y in shards]).astype(np.int64)).to(self.device)
        self.fill = torch.tensor([each.background for each in self.standardise], device=self.device)
        shape = tuple(self.x.shape[1:])
        self.compute_dtype = compute_dtype_for(template.build(shape, template.classes), shape, self.recipe, self.device)
        self.net, self.weights = _stacked(template, shape, seeds)
        self.ema = None if self.recipe.ema is None else [each.detach().clone() for each in self.weights.values()]
        self.rngs = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.optimiser, self.schedule = optimisation(self.weights.values(), self.recipe, self.steps)

    def fit(self, progress: Progress = silent) -> None:
        """Train all networks for all epochs of the recipe."""
        self.net.train()
        for epoch in range(self.recipe.epochs):
            for rows, draws, mask in self._batches():
                self._step(rows, draws, mask)
            progress(epoch + 1, self.recipe.epochs)
        if self.ema is not None:
            self.weights = dict(zip(self.weights, self.ema, strict=True))

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Return the labels (networks, samples) that the networks predict for samples `x`."""
        return self._for_all(x, self.net, lambda logits: logits.argmax(2))

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.floating]:
        """Return log-probabilities (networks, samples, classes) of the classes for samples `x`."""
        return self._for_all(x, self.net, lambda logits: logits.log_softmax(2))

    def hints(self, x: NDArray[Any], layer: str) -> NDArray[np.float32]:
        """Return the hints (networks, samples, features): outputs of each network's hidden `layer` for samples `x`.

        See `network.hint_layers`.
        """
        return self._for_all(x, hint_layers(self.net, layer), lambda hints: hints.flatten(2))

    @property
    def device_facts(self) -> dict[str, str]:
        return device_facts(self.device, self.compute_dtype)

    @torch.inference_mode()
    def _for_all(self, x: NDArray[Any], net: nn.Module, reduce: Callable[[Tensor], Tensor]) -> NDArray[Any]:
        """Apply `reduce` to the outputs of all networks in each batch of samples `x`; return (networks, samples, …).

        `reduce` gets outputs (networks, batch, …). `net` is the common architecture of the networks, or the first
        layers of this architecture. Only results of the networks in `shown` are returned.
        """
        net.eval()
        batches = [reduce(self._outputs(net, batch)).cpu() for batch in self._batches_of(x)]
        return torch.cat(batches, 1).numpy()[self.shown]

    def _batches_of(self, x: NDArray[Any]) -> Iterable[Tensor]:
        """Yield batches of samples `x`, standardised separately for each network: (networks, batch, …)."""
        mean, spread = (
            torch.stack([getattr(each, part)[0] for each in self.standardise]) for part in ("mean", "spread")
        )
        for batch in torch.from_numpy(x).split(max(1, _AT_ONCE // len(self.sizes))):  # type: ignore[no-untyped-call]
            yield standardised(batch.to(self.device), mean[:, None], spread[:, None])

    def _batches(self) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
        """Yield the batches of an epoch: positions of samples in `self.x`, random numbers for augmentation, and a mask.

        Positions and mask are (networks, batch), and the random numbers (networks, batch, numbers). The mask is False
        for padding, which repeats the first sample of a network's shard.
        """
        drawn = [shuffle(size, self.recipe, rng) for size, rng in zip(self.sizes, self.rngs, strict=True)]
        length = self.recipe.batch * (self.steps // self.recipe.epochs)
        starts = torch.tensor([0, *self.sizes[:-1]]).cumsum(0)
        rows = _pad([order for order, _ in drawn], length) + starts[:, None]
        mask = torch.arange(length) < torch.tensor(self.sizes)[:, None]
        parts = (rows, _pad([draws for _, draws in drawn], length), mask)
        return zip(*(part.to(self.device).split(self.recipe.batch, 1) for part in parts), strict=True)  # type: ignore[no-untyped-call]

    def _step(self, rows: Tensor, draws: Tensor, mask: Tensor) -> None:
        samples, labels = self.x[rows], self.y[rows]
        if self.recipe.augments and samples.ndim == 5:
            fill = self.fill.repeat_interleave(rows.shape[1]).view(-1, 1, 1, 1)
            moved = move(samples.flatten(0, 1), draws.flatten(0, 1), self.recipe, fill=fill)
            samples = moved.view(samples.shape)
        self.optimiser.zero_grad(set_to_none=True)
        logits = self._outputs(self.net, samples)
        losses = F.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), reduction="none", label_smoothing=self.recipe.label_smoothing
        ).view(rows.shape)
        # Networks share no weights, so the gradient of the sum of their losses contains the gradient of each loss.
        (torch.where(mask, losses, 0.0).sum(1) / mask.sum(1)).sum().backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.schedule.step()
        if self.ema is not None and self.recipe.ema is not None:
            ema_update_tensors(self.ema, self.weights.values(), self.schedule.last_epoch, self.recipe.ema)

    def _outputs(self, net: nn.Module, samples: Tensor) -> Tensor:
        """Return the outputs of all networks for `samples` (networks, batch, …); each network has its own samples.

        `net` is the networks' architecture or its first layers.
        """
        weights = {name: self.weights[name] for name, _ in net.named_parameters()}
        with autocast(self.device, self.compute_dtype):
            return vmap(lambda own, x: functional_call(net, own, (x,)))(weights, samples).float()


def _stacked(template: Network, shape: tuple[int, ...], seeds: Sequence[int]) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return one network built by `template`, and the initial weights of all networks, one network per seed in `seeds`.

    The weights are a dict from the name of a parameter to a tensor (networks, …). `shape` is the shape of a sample.
    """
    weights: dict[str, Tensor] = {}
    # Networks are built one after another, to save memory.
    for position, seed in enumerate(seeds):
        with seeded(seed):
            net = template.build(shape, template.classes)
        for name, each in net.named_parameters():
            if position == 0:
                weights[name] = torch.empty(len(seeds), *each.shape)
            weights[name][position].copy_(each.detach())
    # Keep networks independent. A library may compute several groups of a convolution together, with zero weights
    # between the groups. If one network has a non-finite number, 0 times this number would be NaN in another network.
    for module in net.modules():
        if isinstance(module, nn.modules.conv._ConvNd):
            module.register_forward_pre_hook(lambda _, inputs: (_Finite.apply(inputs[0], False),))  # type: ignore[no-untyped-call]
            module.register_forward_hook(lambda _, inputs, output: _Finite.apply(output, True))  # type: ignore[no-untyped-call]
    # Moving the weights of 250 networks separately to an H100 took a fifth of the training time.
    on_device = {name: each.to(template.device).requires_grad_() for name, each in weights.items()}
    return net.to(template.device), on_device


class _Finite(torch.autograd.Function):
    """Identity function `apply(x, backward)` that replaces NaN and ∞ by finite numbers.

    The numbers are replaced in the result if `backward` is False, and in the gradient if `backward` is True.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, backward: bool) -> Tensor:
        return x.view_as(x) if backward else torch.nan_to_num(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, ctx.in_backward = inputs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return torch.nan_to_num(gradient) if ctx.in_backward else gradient, None


def _pad(tensors: Sequence[Tensor], length: int) -> Tensor:
    """Append zeros to each of `tensors` up to this `length`, and stack the results: (tensors, length, …)."""
    padded = tensors[0].new_zeros(len(tensors), length, *tensors[0].shape[1:])
    for place, tensor in zip(padded, tensors, strict=True):
        place[: len(tensor)] = tensor
    return padded
