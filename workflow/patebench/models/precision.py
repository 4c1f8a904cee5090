"""Mixed precision (autocast to bfloat16) where the processor computes it natively, and single precision elsewhere."""

import os
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.models.recipes import Recipe

#: Set to "single", this variable turns autocast off for all that a process trains.
SWITCH = "PATEBENCH_PRECISION"

#: Multiplications for one sample from which bfloat16 pays; below, the conversions take longer than they save.
_WORTH_IT = 1_000_000


def autocast(device: torch.device) -> AbstractContextManager[object]:
    """A context in which matrix products and convolutions run in `compute_dtype(device)`.

    bfloat16 is twice as fast on processors with AVX512-BF16 or AMX. Others would emulate it, so they do not use it.
    """
    return autocast_to(device, compute_dtype(device))


def autocast_to(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[object]:
    """A context in which matrix products and convolutions on `device` run in `dtype`, bfloat16 or float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype is torch.bfloat16)


def compute_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where `device` computes it natively and `SWITCH` does not forbid it, else float32.

    Raises PatebenchError if the variable `SWITCH` has another value than "reduced" or "single".
    """
    allowed = os.environ.get(SWITCH, "reduced")
    if allowed not in ("reduced", "single"):
        raise PatebenchError(f"{SWITCH} is '{allowed}'; set it to single, or leave it unset")
    native = device.type == "cuda" or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return torch.bfloat16 if native and allowed == "reduced" else torch.float32


def compute_dtype_for(net: nn.Module, shape: tuple[int, ...], recipe: Recipe, device: torch.device) -> torch.dtype:
    """`compute_dtype(device)` if `recipe` allows it and `net` is large enough for it to pay, else float32.

    `net` is still on the CPU; it reads samples of `shape`, without the axis of the batch.
    """
    worth_it = recipe.precision == "reduced" and _multiplications(net, shape) >= _WORTH_IT
    return compute_dtype(device) if worth_it else torch.float32


def _multiplications(net: nn.Module, shape: tuple[int, ...]) -> int:
    """How many multiplications the linear and convolutional layers of `net` do for one sample."""
    counts = []

    def count(layer: nn.Linear | nn.modules.conv._ConvNd, _: object, out: Tensor) -> None:
        counts.append(out.numel() * layer.weight[0].numel())

    layers = [layer for layer in net.modules() if isinstance(layer, nn.Linear | nn.modules.conv._ConvNd)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    with torch.no_grad():
        net.eval()(torch.zeros(1, *shape))
    for hook in hooks:
        hook.remove()
    return sum(counts)
