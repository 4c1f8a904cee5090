"""Words of messages that depend on numbers."""

import math
from collections.abc import Sequence


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 fault, 2 faults, 2 classes, 2 queries."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}{'es' if noun.endswith(('s', 'x', 'ch')) else 's'}"


def upward(value: float, digits: int) -> str:
    """A finite bound with so many digits after the point, rounded up, so that it still holds as it is said."""
    scaled = value * 10.0**digits
    return f"{math.ceil(scaled - 1e-9 * scaled) / 10.0**digits:.{digits}f}"


def downward(value: float, digits: int) -> str:
    """A lower bound with so many digits after the point, rounded down."""
    scaled = value * 10.0**digits
    return f"{math.floor(scaled + 1e-9 * scaled) / 10.0**digits:.{digits}f}"


def significant(value: float, digits: int) -> int:
    """How many digits after the point give so many that count, of a positive value."""
    return digits - 1 - math.floor(math.log10(value))


def listing(names: Sequence[object], most: int = 8) -> str:
    """Names one after the other, the first few of many."""
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
