"""Reduced precision where the processor multiplies it natively, and full precision elsewhere."""

from contextlib import AbstractContextManager

import torch


def reduced(device: torch.device) -> AbstractContextManager[object]:
    """A context in which large products are computed in bfloat16, if that is faster on `device` than single precision.

    Twice as fast on processors with AVX512-BF16 or AMX; on others the format would be emulated, so it is not used.
    """
    native = device.type == "cuda" or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return torch.autocast(device.type, torch.bfloat16, enabled=native)
