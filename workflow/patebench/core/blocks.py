"""Divide indices into blocks, to limit the memory of a computation."""

from collections.abc import Iterator


def blocks(stop: int, size: int, start: int = 0) -> Iterator[slice]:
    """Yield slices that divide the indices `start` … `stop` − 1 into blocks.

    Each block has `size` indices, or 1 if `size` is below 1. The last block may have fewer.
    """
    size = max(1, size)
    return (slice(first, min(first + size, stop)) for first in range(start, stop, size))
