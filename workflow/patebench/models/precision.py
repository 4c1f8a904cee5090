"""Reduced precision where the processor multiplies it natively, and full precision elsewhere."""

import os
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.models.recipes import Recipe

#: Set to "single", this variable turns reduced precision off for all that a process trains.
SWITCH = "PATEBENCH_PRECISION"

#: Multiplications for one sample from which reduced precision pays; below, conversions take longer than they save.
_WORTH_IT = 1_000_000


def reduced(device: torch.device) -> AbstractContextManager[object]:
    """A context in which large products are computed in bfloat16, if that is faster on `device` than single precision.

    Twice as fast on processors with AVX512-BF16 or AMX; on others the format would be emulated, so it is not used.
    """
    return products(device, factors(device))


def factors(device: torch.device) -> torch.dtype:
    """The type in which `device` is to multiply where rounding hardly matters."""
    allowed = os.environ.get(SWITCH, "reduced")
    if allowed not in ("reduced", "single"):
        raise PatebenchError(f"{SWITCH} is '{allowed}'; set it to single, or leave it unset")
    native = device.type == "cuda" or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return torch.bfloat16 if native and allowed == "reduced" else torch.float32


def factors_for(net: nn.Module, shape: tuple[int, ...], recipe: Recipe, device: torch.device) -> torch.dtype:
    """The same for a network on the CPU that reads samples of `shape` and is to be trained by `recipe` on `device`."""
    worth_it = recipe.precision == "reduced" and _multiplications(net, shape) >= _WORTH_IT
    return factors(device) if worth_it else torch.float32


def products(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[object]:
    """A context in which large products are computed in `dtype`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype is torch.bfloat16)


def _multiplications(net: nn.Module, shape: tuple[int, ...]) -> int:
    """How many numbers the linear and convolutional layers of `net` multiply for one sample."""
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
