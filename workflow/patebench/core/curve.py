"""Cumulative ε: bounds of one accountant at many numbers of queries, held as one record.

A curve is a bound's record whose `queries` (ascending) and `epsilon` are lists; orders are left out.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from patebench.core.bound import Bound
from patebench.core.errors import PatebenchError


def curves(bounds: Iterable[Bound]) -> list[dict[str, Any]]:
    """One record for each statement that `bounds` make of several numbers of queries, ready for strict JSON."""
    found: dict[Bound, dict[int, Any]] = {}
    for bound in bounds:
        statement = replace(bound, epsilon=0.0, queries=0, order=None)
        found.setdefault(statement, {})[bound.queries] = bound.to_json()["epsilon"]
    return [
        {name: value for name, value in statement.to_json().items() if name != "order"}
        | {"queries": sorted(points), "epsilon": [points[T] for T in sorted(points)]}
        for statement, points in found.items()
    ]


def points(curve: dict[str, Any]) -> list[Bound]:
    """The bounds that a curve runs through, without their orders; PatebenchError where it is malformed."""
    try:
        pairs = zip(curve["queries"], curve["epsilon"], strict=True)
        return [Bound.from_json({**curve, "queries": T, "epsilon": epsilon, "order": None}) for T, epsilon in pairs]
    except (KeyError, TypeError, ValueError) as fault:
        raise PatebenchError(f"a curve is malformed: {fault!r}") from None
