"""What a mechanism of another package gives back is looked at before anything is made of it.

What is built in is tested here; of another package nobody knows. A NaN among probabilities would be an ε of 0, and a
label that there is not would be learnt from. So every such class is wrapped as it is defined: what it returns is
checked, and what it raises becomes one line that names it, with the traceback in the log.
"""

import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from patebench.accounting.votes import Votes
from patebench.core.errors import PatebenchError
from patebench.core.words import plural

if TYPE_CHECKING:
    from patebench.accounting.accountant import Accountant
    from patebench.core.bound import Bound

log = logging.getLogger("patebench")

#: How far the probabilities of one query may be from one together.
_SLACK = 1e-6


def is_outside(kind: type) -> bool:
    """Whether a class is none of this package."""
    return kind.__module__.partition(".")[0] != __name__.partition(".")[0]


def guard(kind: type) -> None:
    """Wrap the methods that a class of another package defines itself."""
    for name, check in _CHECKS.items():
        method = vars(kind).get(name)
        if inspect.isfunction(method) and not getattr(method, "guarded", False):
            setattr(kind, name, _guarded(method, name, check))


def fault_of(kind: object) -> str | None:
    """Why something that another package offers can not be a mechanism; None if it can."""
    from patebench.mechanisms.base import Mechanism

    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        return "is no subclass of patebench.mechanisms.base.Mechanism"
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        return f"lacks the method {missing[0]}"
    if vars(kind).get("__annotations__") and "__dataclass_fields__" not in vars(kind):
        return "is no dataclass; put @dataclass(frozen=True) above it"
    if bare := [item.name for item in fields(kind) if not {"low", "above", "high"} <= set(item.metadata)]:
        return f"has the field {bare[0]}, which is no parameter; make it with patebench.mechanisms.base.parameter"
    return None


def _guarded(method: Callable[..., Any], name: str, check: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def guarded(self: Any, *given: Any, **more: Any) -> Any:
        with _blaming(self, name):
            found = method(self, *given, **more)
        return check(_Call(self, name, given), found)

    guarded.guarded = True  # type: ignore[attr-defined]
    return guarded


class _Call:
    """One call of a method of a mechanism."""

    def __init__(self, mechanism: Any, name: str, given: tuple[Any, ...]) -> None:
        self.mechanism, self.name = mechanism, name
        self.votes: Votes | None = next((each for each in given if isinstance(each, Votes)), None)

    def refused(self, words: str) -> PatebenchError:
        return PatebenchError(f"{named(type(self.mechanism))}: {self.name} gave {words}; mend that package")


@contextmanager
def _blaming(mechanism: Any, method: str) -> Iterator[None]:
    """Let whatever a mechanism raises be one line that names it."""
    try:
        yield
    except (PatebenchError, MemoryError):
        raise
    except (Exception, SystemExit) as fault:  # one that leaves would leave without a word
        log.error("%s failed in %s", named(type(mechanism)), method, exc_info=fault)
        words = f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
        raise PatebenchError(
            f"{named(type(mechanism))} failed in {method} ({words}); mend that package (--log FILE has the traceback)"
        ) from None


def named(kind: type) -> str:
    """A mechanism of another package as messages call it: by its name and package, or by its class and module."""
    from patebench.mechanisms import MECHANISMS

    return MECHANISMS.origin(kind) or f"the mechanism {kind.__qualname__} of the module {kind.__module__}"


def _labels(call: _Call, found: Any) -> Any:
    labels, votes = np.asarray(found), call.votes
    if votes is None:
        return found
    if labels.dtype.kind not in "iu" or labels.shape != (votes.queries,):
        what = f"{labels.dtype} of shape {labels.shape}"
        raise call.refused(f"{what} in place of a whole number for each of {plural(votes.queries, 'query')}")
    if labels.min() < -1 or labels.max() >= votes.classes:
        raise call.refused(
            f"labels from {labels.min()} to {labels.max()}, and there are 0 to {votes.classes - 1} and −1, no answer"
        )
    return labels


def _released(call: _Call, found: Any) -> Any:
    if not isinstance(found, dict) or "labels" not in found:
        raise call.refused(f"{type(found).__name__} in place of a dict of arrays, one of them called labels")
    return {**found, "labels": _labels(call, found["labels"])}


def _log_probabilities(call: _Call, found: Any) -> Any:
    votes = call.votes
    if found is None or votes is None:
        return found
    log_p, due = np.asarray(found), (votes.queries, votes.classes + 1)
    if log_p.dtype.kind != "f" or log_p.shape != due:
        raise call.refused(f"{log_p.dtype} of shape {log_p.shape} in place of floats {due}: queries × (classes + 1)")
    if np.isnan(log_p).any():
        raise call.refused("NaN in place of logarithms of probabilities")
    sums = np.exp(np.minimum(log_p, 1.0)).sum(axis=1)
    if (wrong := np.abs(sums - 1) > _SLACK).any() or log_p.max() > _SLACK:
        query = int(np.argmax(wrong))
        raise call.refused(f"probabilities of query {query} that sum to {sums[query]:.6g} and not to 1")
    return log_p


def _neighbours(call: _Call, found: Any) -> Iterator[Any]:
    pairs = iter(found)
    while True:
        with _blaming(call.mechanism, call.name):
            pair = next(pairs, None)
        if pair is None:
            return
        if np.isnan(pair.log_p).any() or np.isnan(pair.log_p_neighbour).any():
            raise call.refused("NaN in place of logarithms of probabilities")
        yield pair


def _accountants(call: _Call, found: Any) -> Any:
    from patebench.accounting.accountant import Accountant

    if not isinstance(found, list | tuple) or not all(isinstance(each, Accountant) for each in found):
        raise call.refused(f"{type(found).__name__} in place of a list of patebench.accounting.accountant.Accountant")
    return list(found)


def bounds_by(mechanism: Any, accountant: "Accountant", queries: Sequence[int], delta: float) -> "list[Bound]":
    """What an accountant of a mechanism states; of another package's, whatever is wrong with it is said by name."""
    if not is_outside(type(mechanism)):
        return accountant.bounds(queries, delta)
    try:
        with _blaming(mechanism, f"the accountant '{accountant.name}'"):
            return accountant.bounds(queries, delta)
    except PatebenchError as fault:
        name = named(type(mechanism))
        raise PatebenchError(str(fault) if str(fault).startswith(name) else f"{name}: {fault}") from None


def _anything(call: _Call, found: Any) -> Any:
    return found


#: The methods that may be overridden, and what is looked at in what they give.
_CHECKS: dict[str, Callable[[_Call, Any], Any]] = {
    "release": _labels,
    "released": _released,
    "student_labels": _labels,
    "log_outcome_probabilities": _log_probabilities,
    "neighbours": _neighbours,
    "accountants": _accountants,
    "sanitised": _accountants,
    "teacher_costs": _anything,
    "per_query_cost": _anything,
    "most_participation": _anything,
    "__post_init__": _anything,
}
