"""Registries: a name, one file that implements it, loaded only when it is asked for.

Loading is lazy so that stages which only count votes never import torch, and so that a configuration can be checked
against the names without importing anything.

Other packages add names of their own by entry points, which are looked for when all names are listed, or one that is
not built in is asked for. What is built in cannot be replaced.

A name may have facts, such as what options a method takes. Those of built-in things stand in the registry and are read
without importing anything; those of another package are attributes of the thing itself.
"""

import difflib
import importlib
import inspect
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from patebench.core.checks import quote
from patebench.core.errors import PatebenchError
from patebench.core.text import plural

FaultOf = Callable[[object], str | None]


def imported(target: str) -> Any:
    """Import what "module:attribute" names."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def called_with(*arguments: str, by_name: bool = False) -> FaultOf:
    """Return a check for functions that are called with these arguments, by position or by name beside others."""

    def fault_of(found: object) -> str | None:
        said = f"is called with {plural(len(arguments), 'argument')} ({', '.join(arguments)})"
        if not callable(found):
            return f"{said}, and is no function"
        try:
            signature = inspect.signature(found)
            signature.bind_partial(**dict.fromkeys(arguments)) if by_name else signature.bind(*arguments)
        except TypeError as fault:
            return f"{said}, and cannot be: {fault}"
        except ValueError:  # a function of C that tells nothing of its arguments
            return None
        return None

    return fault_of


def instance_of(target: str) -> FaultOf:
    """Return a check for values of the class that "module:class" names, which is imported only then."""

    def fault_of(found: object) -> str | None:
        return None if isinstance(found, imported(target)) else f"is no {target.replace(':', '.')}"

    return fault_of


if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

log = logging.getLogger("patebench")

#: Names are parts of paths.
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def nearest(name: object, allowed: Iterable[str]) -> str:
    """Return a hint like " (did you mean 'lnmax'?)", or nothing if no allowed name is close."""
    close = difflib.get_close_matches(str(name).lower(), list(allowed), n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""


class Registry:
    """Names of one kind of thing, each with the "module:attribute" that implements it.

    With a `group`, the entry points of that group in installed packages are among them. `fault_of`, or the function
    that "module:function" names, says of what such a package offers why it cannot be one of these, or None.
    """

    def __init__(self, kind: str, group: str | None = None, fault_of: FaultOf | str | None = None) -> None:
        self.kind = kind
        self.group = group
        self._fault_of = fault_of
        self._targets: dict[str, str] = {}
        self._facts: dict[str, Mapping[str, Any]] = {}

    def add(self, name: str, target: str, **facts: Any) -> None:
        """Register `name`, implemented by `target` ("module:attribute"), with its facts.

        Raises PatebenchError for a name that is taken.
        """
        if name in self._targets:
            raise PatebenchError(f"the {self.kind} '{name}' is registered twice: {self._targets[name]} and {target}")
        self._targets[name], self._facts[name] = target, facts

    def names(self) -> list[str]:
        return [*self._targets, *self._outside]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._targets or name in self._outside)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def check(self, name: str) -> str:
        """Return `name`, or raise one line that lists what is allowed."""
        if name not in self:
            shown = name if isinstance(name, str) and len(name) <= 60 else quote(name)
            near, known = self._hint(shown), ", ".join(self)
            line = f"unknown {self.kind} '{shown}'{near}{self._elsewhere(shown)}; known: {known}"
            raise PatebenchError(line, code="unknown-name")
        return name

    def _hint(self, name: object) -> str:
        """Return a hint at the entry that others call `name` (its fact `also`), or whose name is spelt like it."""
        others = {word: own for own, facts in self._facts.items() for word in facts.get("also", ())}
        known = others.get(str(name).lower())
        return f" (did you mean '{known}'?)" if known else nearest(name, self)

    def fault_of(self, thing: object) -> str | None:
        """Return why a thing cannot be one of these, or None."""
        check = imported(self._fault_of) if isinstance(self._fault_of, str) else self._fault_of
        return check(thing) if check else None

    def origin(self, thing: object) -> str | None:
        """Return what another package calls a class or function that it offers; None for anything else."""
        value = f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}"
        return next((self._named(point) for point in self._outside.values() if point.value == value), None)

    def is_built_in(self, name: str) -> bool:
        """Return True if `name` is registered here and by no other package."""
        return name in self._targets

    def load(self, name: str) -> Any:
        """Import and return what implements `name`."""
        if self.check(name) not in self._targets:
            return self._load_outside(self._outside[name])
        return imported(self._targets[name])

    def check_offered(self) -> None:
        """Load all that other packages offer; PatebenchError for what can not be loaded, or is no such thing."""
        for name in self._outside:
            self.load(name)

    def fact(self, name: str, fact: str, default: Any = None) -> Any:
        """Return what is registered of `name` under `fact`, or `default`.

        Imports nothing if `name` is built in. What another package adds is loaded, and has the fact as an attribute.
        Raises PatebenchError for an unknown name, or a package that can not be loaded.
        """
        if name in self._facts:
            return self._facts[name].get(fact, default)
        return getattr(self.load(name), fact, default)

    @cached_property
    def _outside(self) -> dict[str, "EntryPoint"]:
        """Return what other packages add; PatebenchError for a name that is taken or cannot be part of a path."""
        if self.group is None:
            return {}
        from importlib.metadata import entry_points

        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=self.group):
            if not PLAIN_NAME.fullmatch(point.name):
                raise PatebenchError(f"{self._named(point)} is no plain name: only letters, digits, '_' and '-' may be")
            taken = self._targets.get(point.name) or (found[point.name].value if point.name in found else None)
            if taken:
                raise PatebenchError(
                    f"{self._named(point)} is registered twice: {taken} and {point.value}; rename it in that package"
                )
            found[point.name] = point
        return found

    def _elsewhere(self, name: str) -> str:
        """Return a hint if a package offers that name under a group in which nobody looks for it."""
        for point in _points_like(self.group):
            if point.name == name and point.group != self.group:
                return f" (the package {_package(point)} offers it under {point.group}, and not under {self.group})"
        return ""

    def _load_outside(self, point: "EntryPoint") -> Any:
        try:
            found = point.load()
        except (Exception, SystemExit) as fault:  # whatever the module of another package does as it is imported
            log.error("%s cannot be loaded", self._named(point), exc_info=fault)
            words = (
                str(fault) if isinstance(fault, ImportError | AttributeError) else f"{type(fault).__name__}: {fault}"
            )
            raise PatebenchError(
                f"{self._named(point)} cannot be loaded ({words}); mend or remove that package"
            ) from None
        if why := self.fault_of(found):
            raise PatebenchError(f"{self._named(point)} {why}; mend that package")
        return found

    def _named(self, point: "EntryPoint") -> str:
        return f"the {self.kind} '{point.name}' of the package {_package(point)}"


def check_groups(registries: Iterable[Registry]) -> None:
    """Refuse what a package offers under a group that is like those of these registries: nobody would look there."""
    groups = [registry.group for registry in registries if registry.group]
    for point in _points_like(groups[0]):
        if point.group not in groups:
            raise PatebenchError(
                f"the package {_package(point)} offers '{point.name}' under the group {point.group}, which there is not"
                f"{nearest(point.group, groups)}; mend that package: the groups are {', '.join(groups)}"
            )


def _points_like(group: str | None) -> Iterator["EntryPoint"]:
    """Yield all entry points of groups whose names begin as this one does, before the dot."""
    if group is None:
        return
    from importlib.metadata import entry_points

    family = f"{group.partition('.')[0]}."
    for each in sorted(entry_points().groups):
        if each.startswith(family):
            yield from entry_points(group=each)


def _package(point: "EntryPoint") -> str:
    return point.dist.name if point.dist else "unknown"
