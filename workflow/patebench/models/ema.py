"""The exponential moving average (EMA) of a network's weights: steadier predictions than those of the last step."""

import copy
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn


def ema_copy(net: nn.Module) -> nn.Module:
    """A copy of `net` to hold the average: no gradient reaches it, only `ema_update` changes it."""
    return copy.deepcopy(net).requires_grad_(False)


@torch.no_grad()
def ema_update(ema: nn.Module, net: nn.Module, step: int, decay: float) -> None:
    """Move the weights of `ema` towards those of `net`, and copy its buffers, such as running statistics.

    `step` is the number of the training step that was just taken, from 1; `decay` is in [0, 1). See
    `ema_update_tensors`.
    """
    ema_update_tensors(ema.parameters(), net.parameters(), step, decay)
    for averaged, current in zip(ema.buffers(), net.buffers(), strict=True):
        averaged.copy_(current)


@torch.no_grad()
def ema_update_tensors(ema: Iterable[Tensor], weights: Iterable[Tensor], step: int, decay: float) -> None:
    """ema ← d · ema + (1 − d) · weights for each pair of tensors, where d = min(`decay`, (1 + step)/(10 + step)).

    d is the ramp of TensorFlow's `ExponentialMovingAverage`, by which the initial weights are soon forgotten.
    `step` counts from 1.
    """
    share = 1 - min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(cast(list[Tensor], list(ema)), list(weights), share)
