"""Models for DP-SGD (Abadi et al. 2016), with the gradient of each sample clipped: a linear one, and networks.

One sample changes a sum by at most the clipping norm, for any gradient. Each sample's gradient is computed from that
sample alone, so no layer can mix samples. A model is one vector of weights.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from patebench.core.errors import PatebenchError
from patebench.models.augment import random_affine
from patebench.models.recipes import MODERN
from patebench.models.scaling import Standardise

#: Relative margin of clipped norms below the bound, larger than rounding in single precision.
_ROUNDING = 1e-5


def clip_factors(norms: Tensor, clip: float) -> Tensor:
    """Return the factors that clip gradients of these norms to `clip`; 0 where a norm is not finite."""
    return torch.where(torch.isfinite(norms), (clip / norms).clamp(max=1.0) * (1 - _ROUNDING), 0.0)


def counted(gradients: Tensor, factors: Tensor) -> Tensor:
    """Return `gradients` with the rows of factor 0 set to 0, since 0 times a non-finite number is NaN."""
    return gradients if bool((factors > 0).all()) else torch.where(factors[:, None] > 0, gradients, 0.0)


#: Computes public features (samples, features) of any samples.
Features = Callable[[NDArray[Any]], NDArray[np.floating]]


class LinearModel:
    """A linear classifier of public features, with weights (features + 1, classes); the last row is for a constant 1.

    Softmax regression after Tramèr & Boneh 2021, *Differentially private learning needs better features (or much more
    data)*. A gradient is the outer product of an error and an input, so its norm is known without computing it: ‖(p −
    y) xᵀ‖ = ‖p − y‖·‖x‖. The sum of all clipped gradients is one product of matrices. The gradients of single samples,
    which hooks such as those of Opacus would compute, are never needed.
    """

    def __init__(self, features: Features, x: NDArray[Any], y: NDArray[np.integer], classes: int) -> None:
        self._features = features
        self._inputs = self._inputs_of(x)
        labels = torch.from_numpy(y.astype(np.int64))
        self._targets = F.one_hot(labels, classes).to(self._inputs.dtype)
        self._norms = self._inputs.norm(dim=1)

    def start(self) -> Tensor:
        """Return the weights before the first step, all 0: all classes are equally likely."""
        return torch.zeros(self._inputs.shape[1] * self._targets.shape[1])

    def clipped_sum(self, weights: Tensor, chosen: Tensor, clip: float) -> Tensor:
        """Return the sum of the gradients (weights,) of the samples at positions `chosen`, each clipped to `clip`."""
        inputs = self._inputs[chosen]
        errors = self._logits(weights, inputs).softmax(1) - self._targets[chosen]
        factors = clip_factors(errors.norm(dim=1) * self._norms[chosen], clip)
        inputs, errors = counted(inputs, factors), counted(errors, factors)
        return (inputs.T @ (errors * factors[:, None])).flatten()

    def logits(self, weights: Tensor, x: NDArray[Any]) -> Tensor:
        """Return unnormalised log-probabilities (samples, classes) of samples `x`."""
        return self._logits(weights, self._inputs_of(x))

    def _logits(self, weights: Tensor, inputs: Tensor) -> Tensor:
        return inputs @ weights.view(inputs.shape[1], -1)

    def _inputs_of(self, x: NDArray[Any]) -> Tensor:
        """Return the features of samples, with a last feature that is 1."""
        return F.pad(torch.from_numpy(self._features(x)).float(), (0, 1), value=1.0)


#: Largest number of images (views of samples) in one call, and of numbers in their samples' gradients; larger calls
#: need more memory and are not faster.
_AT_ONCE, _NUMBERS = 256, 1 << 25

#: Number of groups of a group norm; fewer if it does not divide the number of channels.
_GROUPS = 16

#: Norm of the features that a new head reads, large enough for its weights to learn as fast as the encoder's.
_LENGTH = 10.0


class NetworkModel:
    """A network in which a sample's gradient is the mean over random views of it (De et al. 2022, section 3.2).

    Samples are standardised by public statistics; a single view is the sample itself. All gradients of a part of the
    batch are computed in one call by `vmap`, which passes one sample at a time, so layers cannot mix samples.
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
        """Return the network's own weights, as one vector."""
        return torch.cat([parameter.detach().flatten() for parameter in self._net.parameters()]).clone()

    def clipped_sum(self, weights: Tensor, chosen: Tensor, clip: float) -> Tensor:
        total, named = torch.zeros_like(weights), self._named(weights)
        together = max(1, min(_AT_ONCE // self._views, _NUMBERS // len(weights)))
        parts = torch.split(chosen, together) if len(chosen) else ()
        for part in parts:
            by_name = self._gradients(named, self._views_of(self._x[part]), self._y[part].to(self._device))
            gradients = torch.cat([gradient.flatten(1) for gradient in by_name.values()], 1)
            factors = clip_factors(gradients.norm(dim=1), clip)
            total += factors @ counted(gradients, factors)
        return total

    @torch.inference_mode()
    def logits(self, weights: Tensor, x: NDArray[Any]) -> Tensor:
        named = self._named(weights)
        batches = torch.split(torch.from_numpy(x), _AT_ONCE)
        logits = [functional_call(self._net, named, (self._standardise(batch.to(self._device)),)) for batch in batches]
        return torch.cat(logits).cpu()

    def _named(self, weights: Tensor) -> dict[str, Tensor]:
        """Return the weights by their names in the network."""
        shapes = {name: parameter.shape for name, parameter in self._net.named_parameters()}
        parts = torch.split(weights, [shape.numel() for shape in shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def _loss(self, weights: dict[str, Tensor], views: Tensor, label: Tensor) -> Tensor:
        """Return the mean loss over the views (views, …) of one sample."""
        logits: Tensor = functional_call(self._net, weights, (views,))
        return F.cross_entropy(logits, label.expand(len(views)))

    def _views_of(self, samples: Tensor) -> Tensor:
        """Return standardised views (samples, views, …)."""
        x: Tensor = self._standardise(samples.to(self._device))
        if self._views == 1:
            return x[:, None]
        repeated = x.repeat_interleave(self._views, 0)
        moved = random_affine(repeated, MODERN, self._rng, fill=self._standardise.background)
        return torch.unflatten(moved, 0, (len(x), self._views))


#: A model and the private samples that it learns from.
PrivateModel = LinearModel | NetworkModel


def per_sample(net: nn.Module) -> nn.Module:
    """Return the same network with group norm in place of batch norm, as in De et al. 2022.

    Raises PatebenchError for a layer that keeps statistics of many samples, or has no per-sample gradient. Opacus
    checks the latter, but it ignores layers without weights, such as a batch norm without parameters.
    """
    from opacus.validators import ModuleValidator

    fixed = _without_batch_norm(net.train())
    faults = [str(fault).partition(". ")[0] for fault in ModuleValidator.validate(fixed, strict=False)]
    faults += [
        f"{type(layer).__name__} keeps statistics of many samples"
        for layer in fixed.modules()
        if _keeps_statistics(layer)
    ]
    if faults:
        raise PatebenchError(f"this network cannot be trained by DP-SGD: {faults[0]}; use tanh-cnn, small-cnn or mlp")
    return fixed


def _keeps_statistics(layer: nn.Module) -> bool:
    return isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats


def _without_batch_norm(layer: nn.Module) -> nn.Module:
    """Return a layer in which each batch norm is replaced by a group norm with the same number of channels."""
    if isinstance(layer, nn.modules.batchnorm._BatchNorm):
        channels = layer.num_features
        return nn.GroupNorm(math.gcd(_GROUPS, channels), channels, affine=layer.affine)
    for name, inner in layer.named_children():
        setattr(layer, name, _without_batch_norm(inner))
    return layer


class UnitVectors(nn.Module):
    """Module that scales each row to length `_LENGTH`; queries are compared by features of length 1."""

    def forward(self, x: Tensor) -> Tensor:
        return _LENGTH * F.normalize(x, dim=1)


def with_new_head(net: nn.Module, classes: int) -> nn.Module:
    """Return an encoder followed by a linear classifier of its unit features, whose weights are 0.

    Raises PatebenchError for other networks. On MNIST at ε = 1 this reaches 98.1 %; replacing the encoder's last layer
    by the head reaches 95 %.
    """
    last = net[-1] if isinstance(net, nn.Sequential) else None
    if not isinstance(net, nn.Sequential) or not isinstance(last, nn.Linear):
        raise PatebenchError("only a network that ends in a linear layer can be fine-tuned; use the form scratch")
    head = nn.Linear(last.out_features, classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return nn.Sequential(*net, UnitVectors(), head)
