"""What another package offers under a name: whether it can be such a thing, said as it is loaded.

Each check is a function of what was found that returns what is wrong with it, as the end of a sentence, or None.
"""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from patebench.core.words import plural

FaultOf = Callable[[object], str | None]


def imported(target: str) -> Any:
    """What "module:attribute" names."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def called_with(*arguments: str) -> FaultOf:
    """A check for functions that are called with so many arguments, by position."""

    def fault_of(found: object) -> str | None:
        said = f"is called with {plural(len(arguments), 'argument')} ({', '.join(arguments)})"
        if not callable(found):
            return f"{said}, and is no function"
        try:
            inspect.signature(found).bind(*arguments)
        except TypeError as fault:
            return f"{said}, and can not be: {fault}"
        except ValueError:  # a function of C that tells nothing of its arguments
            return None
        return None

    return fault_of


def taking(*names: str) -> FaultOf:
    """A check for functions that take arguments of these names, beside others."""

    def fault_of(found: object) -> str | None:
        if not callable(found):
            return f"takes the arguments {', '.join(names)}, and is no function"
        try:
            inspect.signature(found).bind_partial(**dict.fromkeys(names))
        except TypeError:
            return f"takes the arguments {', '.join(names)}, and lacks one of them"
        except ValueError:
            return None
        return None

    return fault_of


def instance_of(target: str) -> FaultOf:
    """A check for values of the class that "module:class" names, which is imported only then."""

    def fault_of(found: object) -> str | None:
        return None if isinstance(found, imported(target)) else f"is no {target.replace(':', '.')}"

    return fault_of


def by(target: str) -> FaultOf:
    """The check that "module:function" names, which is imported only then."""

    def fault_of(found: object) -> str | None:
        return imported(target)(found)  # type: ignore[no-any-return]

    return fault_of
