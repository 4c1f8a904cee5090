"""The exponential average of a network's weights: steadier predictions than those of the last step."""

import copy
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn


def follower(net: nn.Module) -> nn.Module:
    """A copy of `net` that learns nothing by itself; `follow` moves it."""
    return copy.deepcopy(net).requires_grad_(False)


@torch.no_grad()
def follow(average: nn.Module, net: nn.Module, step: int, decay: float) -> None:
    """Move `average` towards `net` after its step number `step` (from 1); statistics other than weights are copied."""
    approach(average.parameters(), net.parameters(), step, decay)
    for old, new in zip(average.buffers(), net.buffers(), strict=True):
        old.copy_(new)


@torch.no_grad()
def approach(average: Iterable[Tensor], weights: Iterable[Tensor], step: int, decay: float) -> None:
    """Move each tensor of `average` towards its partner after step number `step` (from 1)."""
    # TensorFlow's ramp min(decay, (1 + t)/(10 + t)), so that the initial weights are soon forgotten.
    share = 1 - min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(cast(list[Tensor], list(average)), list(weights), share)
