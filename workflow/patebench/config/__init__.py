"""Read a configuration file (`loading`), check it (`settings`, `validation`), and plan the jobs (`experiments`, `run`).

An error about a key is a PatebenchError whose message starts with the path of the key. The names in `__all__` are
imported on first use. So stages start quickly, because they import only `parameters`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patebench.config.loading import load
    from patebench.config.run import Run
    from patebench.config.validation import shown, validate

__all__ = ["Run", "load", "shown", "validate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = {"load": "loading", "Run": "run"}.get(name, "validation")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
