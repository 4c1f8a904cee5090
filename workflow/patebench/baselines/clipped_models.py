"""Models for DP-SGD (Abadi et al. 2016), with the gradient of each sample clipped: a linear one, and networks.

One sample changes a sum by the clipping norm at most, whatever its gradient is. Each sample's gradient is computed from
that sample alone, so no layer can mix samples. A model is one vector of weights.
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

#: Clipped norms are this much below the bound, relatively, so that rounding to single precision does not pass it.
_ROUNDING = 1e-5


def clip_factors(norms: Tensor, clip: float) -> Tensor:
    """Return what makes gradients of these norms no longer than `clip`; 0 where a norm is no number, or infinite."""
    return torch.where(torch.isfinite(norms), (clip / norms).clamp(max=1.0) * (1 - _ROUNDING), 0.0)


def counted(gradients: Tensor, factors: Tensor) -> Tensor:
    """Return the same rows, but those whose factor is 0 are 0: a factor does not undo what is no number."""
    return gradients if bool((factors > 0).all()) else torch.where(factors[:, None] > 0, gradients, 0.0)


#: Public features (samples, features) of any samples.
Features = Callable[[NDArray[Any]], NDArray[np.floating]]


class LinearModel:
    """A linear classifier of public features, with weights (features + 1, classes): the last row is of a constant 1.

    Softmax regression after Tramèr & Boneh 2021, *Differentially private learning needs better features (or much more
    data)*. A gradient is the outer product of an error and an input, so its norm needs no gradient:
    ‖(p − y) xᵀ‖ = ‖p − y‖·‖x‖. The sum of all clipped ones is one product of matrices, and no gradient of a single
    sample is ever made, as hooks such as those of Opacus would do.
    """

    def __init__(self, features: Features, x: NDArray[Any], y: NDArray[np.integer], classes: int) -> None:
        self._features = features
        self._inputs = self._inputs_of(x)
        labels = torch.from_numpy(y.astype(np.int64))
        self._targets = F.one_hot(labels, classes).to(self._inputs.dtype)
        self._norms = self._inputs.norm(dim=1)

    def start(self) -> Tensor:
        """Return the weights before the first step, all 0: every class is as likely as any other."""
        return torch.zeros(self._inputs.shape[1] * self._targets.shape[1])

    def clipped_sum(self, weights: Tensor, chosen: Tensor, clip: float) -> Tensor:
        """Return the sum of the gradients (weights,) of the samples at positions `chosen`, each clipped to `clip`."""
        inputs = self._inputs[chosen]
        errors = self._logits(weights, inputs).softmax(1) - self._targets[chosen]
        factors = clip_factors(errors.norm(dim=1) * self._norms[chosen], clip)
        inputs, errors = counted(inputs, factors), counted(errors, factors)
        return (inputs.T @ (errors * factors[:, None])).flatten()

    def logits(self, weights: Tensor, x: NDArray[Any]) -> Tensor:
        """Return unnormalised log-probabilities (samples, classes) of other samples."""
        return self._logits(weights, self._inputs_of(x))

    def _logits(self, weights: Tensor, inputs: Tensor) -> Tensor:
        return inputs @ weights.view(inputs.shape[1], -1)

    def _inputs_of(self, x: NDArray[Any]) -> Tensor:
        """Return features of samples, and a last one that is 1."""
        return F.pad(torch.from_numpy(self._features(x)).float(), (0, 1), value=1.0)


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
        """Return the network's own weights, as one vector."""
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
        """Return the weights by the names that the network gives them."""
        shapes = {name: each.shape for name, each in self._net.named_parameters()}
        parts = torch.split(weights, [shape.numel() for shape in shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def _loss(self, weights: dict[str, Tensor], views: Tensor, label: Tensor) -> Tensor:
        """Return the mean loss over the views (views, …) of one sample."""
        logits: Tensor = functional_call(self._net, weights, (views,))
        return F.cross_entropy(logits, label.expand(len(views)))

    def _views_of(self, samples: Tensor) -> Tensor:
        """Return views (samples, views, …), standardised."""
        x: Tensor = self._standardise(samples.to(self._device))
        if self._views == 1:
            return x[:, None]
        repeated = x.repeat_interleave(self._views, 0)
        moved = random_affine(repeated, MODERN, self._rng, fill=self._standardise.background)
        return torch.unflatten(moved, 0, (len(x), self._views))


#: A model together with the private samples that it learns from.
PrivateModel = LinearModel | NetworkModel


def per_sample(net: nn.Module) -> nn.Module:
    """Return the same network with group norm in place of batch norm, as De et al. 2022 have it.

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
    """Return a layer, and all in it, with each batch norm replaced by a group norm of as many channels."""
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
    """Return an encoder that ends in a linear classifier of its unit features, whose weights are 0; PatebenchError for
    others.

    On MNIST at ε = 1 this gives 98.1 %; where the head takes the place of the encoder's last layer, 95 %.
    """
    last = net[-1] if isinstance(net, nn.Sequential) else None
    if not isinstance(net, nn.Sequential) or not isinstance(last, nn.Linear):
        raise PatebenchError("only a network that ends in a linear layer can be fine-tuned; use the form scratch")
    head = nn.Linear(last.out_features, classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return nn.Sequential(*net, UnitVectors(), head)
