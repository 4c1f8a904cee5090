"""Additive secret sharing modulo 2⁶⁴: words that add up to a value, any but one of which are independent of it."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import SILENT
from patebench.core.entropy import uniform_words
from patebench.core.seeds import Source

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]


def masks(source: Source, aggregators: int, shape: tuple[int, ...]) -> list[Words]:
    """The shares of all aggregators but the last: uniform, and drawn without any value at hand."""
    return [uniform_words(source, shape) for _ in range(aggregators - 1)]


def closing(drawn: list[Words], values: Integers) -> Words:
    """The last aggregator's share, which makes the sum right; uniform too, given all but one of the others."""
    return values.astype(np.uint64) - total(drawn, values.shape)


def total(words: Iterable[Words], shape: tuple[int, ...]) -> Words:
    """The sum modulo 2⁶⁴."""
    result = np.zeros(shape, dtype=np.uint64)
    for each in words:
        result += each
    return result


def opened(sums: Iterable[Words], shape: tuple[int, ...]) -> Integers:
    """The values that all aggregators' sums together stand for, as signed integers."""
    return total(sums, shape).astype(np.int64)


def one_hot(votes: NDArray[np.integer], classes: int) -> Integers:
    """A teacher's votes (queries) as counts of its own, queries × classes; nothing where it keeps silent."""
    result = np.zeros((len(votes), classes), dtype=np.int64)
    (given,) = np.nonzero(votes != SILENT)
    result[given, votes[given]] = 1
    return result
