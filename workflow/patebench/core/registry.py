"""Registries, which map names to implementations and import an implementation on first use.

Imports are lazy for two reasons: stages that only count votes never import torch, and the names in a configuration are
checked without imports.

Other packages add names by entry points. To look up a built-in name, entry points are not read. Another package cannot
replace a built-in name.

A name may have facts, such as the options of a method. Facts of built-in entries are in the registry and need no
import; facts of another package's entries are attributes of the loaded object.
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

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

log = logging.getLogger("patebench")

#: Names that can be parts of paths.
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

FaultOf = Callable[[object], str | None]


def imported(target: str) -> Any:
    """Import and return the object named "module:attribute"."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def called_with(*arguments: str, by_name: bool = False) -> FaultOf:
    """Return a function that checks that an object can be called with the arguments named `arguments`.

    The returned function takes the object. It returns None if the object passes the check, and a message otherwise. If
    `by_name` is False, the arguments are passed by position, and the object must not require any others. If `by_name`
    is True, the arguments are passed by keyword, and the object may require others.
    """

    def fault_of(thing: object) -> str | None:
        need = f"must accept {plural(len(arguments), 'argument')} ({', '.join(arguments)})"
        if not callable(thing):
            return f"{need} but is not callable"
        try:
            signature = inspect.signature(thing)
            signature.bind_partial(**dict.fromkeys(arguments)) if by_name else signature.bind(*arguments)
        except TypeError as fault:
            return f"{need} but does not: {fault}"
        except ValueError:  # a C function without a signature
            return None
        return None

    return fault_of


def instance_of(target: str) -> FaultOf:
    """Return a function that checks that an object is an instance of `target`, a class given as "module:class".

    The returned function takes the object. It returns None if the object is an instance, and a message otherwise. The
    class is imported at the first check, not before.
    """

    def fault_of(thing: object) -> str | None:
        return None if isinstance(thing, imported(target)) else f"is not an instance of {target.replace(':', '.')}"

    return fault_of


def nearest(name: object, allowed: Iterable[str]) -> str:
    """Return a hint for a misspelt `name`, such as " (did you mean 'lnmax'?)", or "" if no `allowed` name is close."""
    close = difflib.get_close_matches(str(name).lower(), list(allowed), n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""


class Registry:
    """Map from names to objects of one kind; each object is stored as "module:attribute" and imported on first use.

    Parameters
    ----------
    kind : kind of the objects in messages, such as "model".
    group : entry-point group in which other packages add names; None if they cannot.
    fault_of : function that checks an object of another package and returns None or the reason to refuse the object.
        The function can be given as "module:function".
    """

    def __init__(self, kind: str, group: str | None = None, fault_of: FaultOf | str | None = None) -> None:
        self.kind = kind
        self.group = group
        self._fault_of = fault_of
        self._targets: dict[str, str] = {}
        self._facts: dict[str, Mapping[str, Any]] = {}

    def add(self, name: str, target: str, **facts: Any) -> None:
        """Register `name`, implemented by `target` ("module:attribute").

        `facts` are metadata of the entry by keyword, such as a description `about`. Raises PatebenchError if the name
        is taken.
        """
        if name in self._targets:
            raise PatebenchError(
                f"the {self.kind} '{name}' is registered twice: {self._targets[name]} and {target}; remove one"
            )
        self._targets[name], self._facts[name] = target, facts

    def names(self) -> list[str]:
        return [*self._targets, *self._outside]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._targets or name in self._outside)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def check(self, name: str) -> str:
        """Return `name`, or raise a PatebenchError that lists the known names."""
        if name not in self:
            shown = name if isinstance(name, str) and len(name) <= 60 else quote(name)
            near, known = self._hint(shown), ", ".join(self)
            line = f"unknown {self.kind} '{shown}'{near}{self._elsewhere(shown)}; known: {known}"
            raise PatebenchError(line, code="unknown-name")
        return name

    def _hint(self, name: object) -> str:
        """Return a hint for an unknown `name`, such as " (did you mean 'lnmax'?)", or "" if no entry is similar.

        If an entry lists `name` in its fact `also` (other names of the entry), the hint names this entry. Otherwise, it
        names the entry with the most similar name.
        """
        others = {word: own for own, facts in self._facts.items() for word in facts.get("also", ())}
        known = others.get(str(name).lower())
        return f" (did you mean '{known}'?)" if known else nearest(name, self)

    def fault_of(self, thing: object) -> str | None:
        """Return the reason why `thing` cannot be an entry of this registry, or None if it can."""
        check = imported(self._fault_of) if isinstance(self._fault_of, str) else self._fault_of
        return check(thing) if check else None

    def is_built_in(self, name: str) -> bool:
        """Return True if `name` is built in, not from another package."""
        return name in self._targets

    def load(self, name: str) -> Any:
        """Import and return the implementation of `name`."""
        if self.check(name) not in self._targets:
            return self._load_outside(self._outside[name])
        return imported(self._targets[name])

    def check_offered(self) -> None:
        """Load all entries of other packages; raise PatebenchError if one cannot be loaded or `fault_of` refuses it."""
        for name in self._outside:
            self.load(name)

    def fact(self, name: str, fact: str, default: Any = None) -> Any:
        """Return the fact `fact` (a piece of metadata) of the entry `name`, or `default` if the entry lacks it.

        Imports nothing if `name` is built in. An entry from another package is loaded and has the fact as an attribute.
        Raises PatebenchError for an unknown name or a package that cannot be loaded.
        """
        if name in self._facts:
            return self._facts[name].get(fact, default)
        return getattr(self.load(name), fact, default)

    def flag(self, fact: str, default: bool = False) -> Callable[[str], bool]:
        """Return a function that takes the name of an entry and returns the entry's fact (metadata) `fact` as a bool.

        For an entry without this fact, the function returns `default`. It raises the same errors as the method `fact`.
        """
        return lambda name: bool(self.fact(name, fact, default))

    @cached_property
    def _outside(self) -> dict[str, "EntryPoint"]:
        """Return the entry points of other packages in the group of this registry, by name."""
        if self.group is None:
            return {}
        from importlib.metadata import entry_points

        points: dict[str, EntryPoint] = {}
        for point in entry_points(group=self.group):
            if not PLAIN_NAME.fullmatch(point.name):
                raise PatebenchError(f"{self._named(point)} has an invalid name; use only letters, digits, '_' and '-'")
            taken = self._targets.get(point.name) or (points[point.name].value if point.name in points else None)
            if taken:
                raise PatebenchError(
                    f"{self._named(point)} is registered twice: {taken} and {point.value}; rename it in that package"
                )
            points[point.name] = point
        return points

    def _elsewhere(self, name: str) -> str:
        """Return a hint if a package registers `name` in another entry-point group of patebench, else ""."""
        for point in _entry_points() if self.group else ():
            if point.name == name and point.group != self.group:
                return (
                    f" (the package {_package(point)} registers it as an entry point of {point.group}, not of"
                    f" {self.group})"
                )
        return ""

    def _load_outside(self, point: "EntryPoint") -> Any:
        try:
            thing = point.load()
        except (Exception, SystemExit) as fault:  # importing another package may raise anything
            log.error("%s cannot be loaded", self._named(point), exc_info=fault)
            words = (
                str(fault) if isinstance(fault, ImportError | AttributeError) else f"{type(fault).__name__}: {fault}"
            )
            raise PatebenchError(
                f"{self._named(point)} cannot be loaded ({words}); fix or remove that package"
            ) from None
        if why := self.fault_of(thing):
            raise PatebenchError(f"{self._named(point)} {why}; fix that package")
        return thing

    def _named(self, point: "EntryPoint") -> str:
        return f"the {self.kind} '{point.name}' of the package {_package(point)}"


def check_groups(registries: Iterable[Registry]) -> None:
    """Raise PatebenchError if another package registers an entry point in an unknown group of patebench.

    Groups of patebench have names that start with "patebench.". The known groups are those of `registries`.
    """
    groups = [registry.group for registry in registries if registry.group]
    for point in _entry_points():
        if point.group not in groups:
            raise PatebenchError(
                f"the package {_package(point)} registers '{point.name}' in the unknown entry-point group {point.group}"
                f"{nearest(point.group, groups)}; fix that package: the groups are {', '.join(groups)}"
            )


def _entry_points() -> Iterator["EntryPoint"]:
    """Yield the entry points of all groups whose names start with "patebench."."""
    from importlib.metadata import entry_points

    for name in sorted(entry_points().groups):
        if name.startswith("patebench."):
            yield from entry_points(group=name)


def _package(point: "EntryPoint") -> str:
    return point.dist.name if point.dist else "unknown"
