"""Torch's optimisers without torch's compiler, and the exponential moving average (EMA) of the trained weights.

The first optimiser of a process and its first step import the compiler, which then does nothing: a second of processor
time in each job that trains. These are the same algorithms and arithmetic, by the methods that torch wraps for its
compiler. The EMA's predictions vary less than those of the weights after the last step.
"""

import copy
import inspect
from collections.abc import Iterable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

Algorithm = TypeVar("Algorithm", bound=torch.optim.Optimizer)


def _plain(algorithm: type[Algorithm]) -> type[Algorithm]:
    """Return the optimiser class with torch's wrappers removed; its step still computes no gradients."""
    wrapped = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods: dict[str, Any] = {name: inspect.unwrap(getattr(algorithm, name)) for name in wrapped}
    methods["step"] = torch.no_grad()(inspect.unwrap(algorithm.step))
    return cast(type[Algorithm], type(algorithm.__name__, (algorithm,), methods))


SGD = _plain(torch.optim.SGD)
Adam = _plain(torch.optim.Adam)
AdamW = _plain(torch.optim.AdamW)


def ema_copy(net: nn.Module) -> nn.Module:
    """Return a copy of `net` to hold the average: no gradient reaches it, and only `ema_update` changes it."""
    return copy.deepcopy(net).requires_grad_(False)


@torch.no_grad()
def ema_update(ema: nn.Module, net: nn.Module, step: int, decay: float) -> None:
    """Move the weights of `ema` towards those of `net`, and copy its buffers, such as running statistics.

    `step` is the number of the last training step, from 1; `decay` is in [0, 1). See `ema_update_tensors`.
    """
    ema_update_tensors(ema.parameters(), net.parameters(), step, decay)
    for averaged, current in zip(ema.buffers(), net.buffers(), strict=True):
        averaged.copy_(current)


@torch.no_grad()
def ema_update_tensors(ema: Iterable[Tensor], weights: Iterable[Tensor], step: int, decay: float) -> None:
    """Set ema ← d · ema + (1 − d) · weights for each pair of tensors, where d = min(`decay`, (1 + step)/(10 + step)).

    d is the ramp of TensorFlow's `ExponentialMovingAverage`, by which the average soon forgets the initial weights.
    `step` counts from 1.
    """
    share = 1 - min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(cast(list[Tensor], list(ema)), list(weights), share)
