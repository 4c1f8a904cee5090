"""Torch's optimisers without importing torch's compiler, and the exponential moving average (EMA) of weights.

The first optimiser of a process makes torch import its compiler, which is not used here. This import takes a second in
each training job. The classes of this module call the same methods of torch without the wrappers for the compiler, so
the arithmetic is the same.
"""

import copy
import inspect
from collections.abc import Iterable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

Algorithm = TypeVar("Algorithm", bound=torch.optim.Optimizer)


def _without_compiler(algorithm: type[Algorithm]) -> type[Algorithm]:
    """Return the optimiser class `algorithm` without the wrappers of torch's compiler around its methods."""
    wrapped = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods: dict[str, Any] = {name: inspect.unwrap(getattr(algorithm, name)) for name in wrapped}
    methods["step"] = torch.no_grad()(inspect.unwrap(algorithm.step))
    return cast(type[Algorithm], type(algorithm.__name__, (algorithm,), methods))


SGD = _without_compiler(torch.optim.SGD)
Adam = _without_compiler(torch.optim.Adam)
AdamW = _without_compiler(torch.optim.AdamW)


def ema_copy(net: nn.Module) -> nn.Module:
    """Return a copy of `net` without gradients, in which `ema_update` averages the weights of `net`."""
    return copy.deepcopy(net).requires_grad_(False)


@torch.no_grad()
def ema_update(ema: nn.Module, net: nn.Module, step: int, decay: float) -> None:
    """Update the averaged weights of the network `ema` by the current weights of `net`.

    The buffers of `net` (running statistics) are copied to `ema`. See `ema_update_tensors` for `step` and `decay`.
    """
    ema_update_tensors(ema.parameters(), net.parameters(), step, decay)
    for averaged, current in zip(ema.buffers(), net.buffers(), strict=True):
        averaged.copy_(current)


@torch.no_grad()
def ema_update_tensors(ema: Iterable[Tensor], weights: Iterable[Tensor], step: int, decay: float) -> None:
    """Set `ema` to d · ema + (1 − d) · `weights` for each pair of tensors; d = min(`decay`, (1 + step)/(10 + step)).

    `step` is the number of the current training step, counted from 1. As in TensorFlow's `ExponentialMovingAverage`, d
    is small in the first steps, so the average soon forgets the initial weights.
    """
    share = 1 - min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(cast(list[Tensor], list(ema)), list(weights), share)
