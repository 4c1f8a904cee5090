"""torch's optimisers without torch's compiler.

The first optimiser of a process and its first step import the compiler, only for it to leave them alone: a second of
processor time in each job that trains, and nothing is compiled here. These are the same algorithms and the same
arithmetic, by the methods that torch wraps for its compiler.
"""

import inspect
from typing import Any, TypeVar, cast

import torch

Algorithm = TypeVar("Algorithm", bound=torch.optim.Optimizer)


def _plain(algorithm: type[Algorithm]) -> type[Algorithm]:
    """The algorithm with its own methods unwrapped; its step computes no gradients, which torch's wrapper sees to."""
    wrapped = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods: dict[str, Any] = {name: inspect.unwrap(getattr(algorithm, name)) for name in wrapped}
    methods["step"] = torch.no_grad()(inspect.unwrap(algorithm.step))
    return cast(type[Algorithm], type(algorithm.__name__, (algorithm,), methods))


SGD = _plain(torch.optim.SGD)
Adam = _plain(torch.optim.Adam)
AdamW = _plain(torch.optim.AdamW)
