"""Networks whose gradients are clipped one sample at a time."""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from patebench.baselines.dpsgd.clipping import clip_factors, counted
from patebench.core.errors import PatebenchError
from patebench.models.augment import random_affine
from patebench.models.network import Standardise
from patebench.models.recipes import MODERN

#: So many images at most, each view being one, are looked at together, and their samples' gradients hold so many
#: numbers at most: what is larger needs more memory and is no faster.
_AT_ONCE, _NUMBERS = 256, 1 << 25

#: The groups of a group norm, or fewer where the channels do not fit.
_GROUPS = 16

#: Of the features that a new head reads: long enough for its weights to learn as fast as the encoder's.
_LENGTH = 10.0


class NetworkModel:
    """A network; a sample's gradient is the mean over some random views of it (De et al. 2022, section 3.2).

    Samples are standardised by public statistics; one view is the sample itself. All gradients of a part of the batch
    are computed in one call, by `vmap`, which sees one sample at a time: a layer that mixes samples has none to mix.
    """

    def __init__(
        self,
        net: nn.Module,
        standardise: Standardise,
        x: NDArray[Any],
        y: NDArray[np.integer],
        *,
        views: int,
        rng: torch.Generator,
    ) -> None:
        self._device = standardise.mean.device
        self._net, self._standardise = per_sample(net).to(self._device), standardise
        self._x, self._y = torch.from_numpy(x), torch.from_numpy(y.astype(np.int64))
        self._views, self._rng = views if x.ndim == 4 else 1, rng
        self._gradients = vmap(grad(self._loss), in_dims=(None, 0, 0))

    def start(self) -> Tensor:
        """The network's own weights."""
        return torch.cat([each.detach().flatten() for each in self._net.parameters()]).clone()

    def clipped_sum(self, weights: Tensor, chosen: Tensor, clip: float) -> Tensor:
        total, named = torch.zeros_like(weights), self._named(weights)
        together = max(1, min(_AT_ONCE // self._views, _NUMBERS // len(weights)))
        parts = torch.split(chosen, together) if len(chosen) else ()
        for part in parts:
            found = self._gradients(named, self._views_of(self._x[part]), self._y[part].to(self._device))
            gradients = torch.cat([each.flatten(1) for each in found.values()], 1)
            factors = clip_factors(gradients.norm(dim=1), clip)
            total += factors @ counted(gradients, factors)
        return total

    @torch.inference_mode()
    def logits(self, weights: Tensor, x: NDArray[Any]) -> Tensor:
        named = self._named(weights)
        batches = torch.split(torch.from_numpy(x), _AT_ONCE)
        found = [functional_call(self._net, named, (self._standardise(each.to(self._device)),)) for each in batches]
        return torch.cat(found).cpu()

    def _named(self, weights: Tensor) -> dict[str, Tensor]:
        """The weights by the names that the network gives them."""
        shapes = {name: each.shape for name, each in self._net.named_parameters()}
        parts = torch.split(weights, [shape.numel() for shape in shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def _loss(self, weights: dict[str, Tensor], views: Tensor, label: Tensor) -> Tensor:
        """The mean loss over the views (views, …) of one sample."""
        logits: Tensor = functional_call(self._net, weights, (views,))
        loss: Tensor = F.cross_entropy(logits, label.expand(len(views)))
        return loss

    def _views_of(self, samples: Tensor) -> Tensor:
        """(samples, views, …), standardised."""
        x: Tensor = self._standardise(samples.to(self._device))
        if self._views == 1:
            return x[:, None]
        repeated = x.repeat_interleave(self._views, 0)
        moved = random_affine(repeated, MODERN, self._rng, fill=self._standardise.background)
        return torch.unflatten(moved, 0, (len(x), self._views))


def per_sample(net: nn.Module) -> nn.Module:
    """The same network with group norm in place of batch norm, as De et al. 2022 have it.

    PatebenchError for a layer that keeps statistics of many samples, or has no gradient for each by itself. Opacus
    knows which have none, but it does not look at layers without weights, such as a batch norm that learns nothing.
    """
    from opacus.validators import ModuleValidator

    fixed = _without_batch_norm(net.train())
    faults = [str(fault).partition(". ")[0] for fault in ModuleValidator.validate(fixed, strict=False)]
    faults += [f"{type(each).__name__} keeps statistics of many samples" for each in fixed.modules() if _keeps(each)]
    if faults:
        raise PatebenchError(f"this network can not be trained by DP-SGD: {faults[0]}; use tanh-cnn, small-cnn or mlp")
    return fixed


def _keeps(layer: nn.Module) -> bool:
    return isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats


def _without_batch_norm(layer: nn.Module) -> nn.Module:
    """A layer, and all in it, with each batch norm replaced by a group norm of as many channels."""
    if isinstance(layer, nn.modules.batchnorm._BatchNorm):
        channels = layer.num_features
        return nn.GroupNorm(math.gcd(_GROUPS, channels), channels, affine=layer.affine)
    for name, inner in layer.named_children():
        setattr(layer, name, _without_batch_norm(inner))
    return layer


class UnitVectors(nn.Module):
    """Each row with length `_LENGTH`: what an encoder's features are when queries are compared by them, but longer."""

    def forward(self, x: Tensor) -> Tensor:
        return _LENGTH * F.normalize(x, dim=1)


def with_new_head(net: nn.Module, classes: int) -> nn.Module:
    """An encoder that ends in a linear classifier of its unit features, whose weights are 0; PatebenchError for others.

    On MNIST at ε = 1 this gives 98.1 %; where the head takes the place of the encoder's last layer, 95 %.
    """
    last = net[-1] if isinstance(net, nn.Sequential) else None
    if not isinstance(net, nn.Sequential) or not isinstance(last, nn.Linear):
        raise PatebenchError("only a network that ends in a linear layer can be fine-tuned; use the form scratch")
    head = nn.Linear(last.out_features, classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return nn.Sequential(*net, UnitVectors(), head)
