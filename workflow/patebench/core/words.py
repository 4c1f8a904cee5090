"""Words of messages that depend on numbers."""


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 fault, 2 faults."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
