"""Registries: a name, one file that implements it, loaded only when it is asked for.

Loading is lazy so that stages which only count votes never import torch, and so that a configuration can be checked
against the names without importing anything.
"""

import difflib
import importlib
from collections.abc import Iterable, Iterator
from typing import Any

from patebench.core.errors import PatebenchError


def nearest(name: object, allowed: Iterable[str]) -> str:
    """A hint like " (did you mean 'lnmax'?)", or nothing when no allowed name is close."""
    close = difflib.get_close_matches(str(name).lower(), list(allowed), n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""


class Registry:
    """Names of one kind of thing, each with the "module:attribute" that implements it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._targets: dict[str, str] = {}

    def add(self, name: str, target: str) -> None:
        """Register `name`; refuse a name that is taken."""
        if name in self._targets:
            raise PatebenchError(f"the {self.kind} '{name}' is registered twice: {self._targets[name]} and {target}")
        self._targets[name] = target

    def names(self) -> list[str]:
        return list(self._targets)

    def __contains__(self, name: object) -> bool:
        return name in self._targets

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def check(self, name: str) -> str:
        """Return `name`, or raise one line that lists what is allowed."""
        if name not in self._targets:
            raise PatebenchError(
                f"unknown {self.kind} '{name}'{nearest(name, self)}; known: {', '.join(self._targets)}"
            )
        return name

    def load(self, name: str) -> Any:
        """Import and return what implements `name`."""
        module, _, attribute = self._targets[self.check(name)].partition(":")
        return getattr(importlib.import_module(module), attribute)
