"""Words of messages that depend on numbers."""

from collections.abc import Sequence


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 fault, 2 faults, 2 classes, 2 queries."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}{'es' if noun.endswith(('s', 'x', 'ch')) else 's'}"


def listing(names: Sequence[object], most: int = 8) -> str:
    """Names one after the other, the first few of many."""
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
