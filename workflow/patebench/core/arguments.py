"""Check the arguments of Python functions: each check returns the value, or raises PatebenchError in one line."""

import operator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patebench.core.errors import PatebenchError

#: Largest whole number of an argument: the largest 64-bit integer.
LARGEST = 2**63 - 1
#: Largest number of classes: a table of counts has a column for each.
MOST_CLASSES = 1_000_000


def check_array(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return the values as an array."""
    try:
        return np.asarray(values)
    except Exception as fault:  # an object may do anything as it is made an array
        raise PatebenchError(f"{name} cannot be made an array: {fault}") from None


def check_whole(name: str, value: Any, least: int = 1, most: int = LARGEST) -> int:
    """Return a whole number from `least` to `most`."""
    try:
        number = operator.index(value)
    except Exception:  # an object may do anything
        raise PatebenchError(f"{name} = {quote(value)} is no whole number") from None
    if isinstance(value, bool | np.bool_):
        raise PatebenchError(f"{name} = {value} is no whole number")
    if number < least:
        raise PatebenchError(f"{name} = {quote(number)} is too small; it must be at least {least}")
    if number > most:
        raise PatebenchError(f"{name} = {quote(number)} is too large; it must be at most {most}")
    return number


def check_real(name: str, value: Any) -> float:
    """Return a number as a float; it may be infinite or NaN."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        with suppress(OverflowError):  # an integer beyond floating-point numbers
            return float(value)
    raise PatebenchError(f"{name} = {quote(value)} is not a number")


def check_truth(name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool | np.bool_):
        raise PatebenchError(f"{name} = {quote(value)} is neither True nor False")
    return bool(value)


def check_text(name: str, value: Any) -> str:
    """Return text."""
    if not isinstance(value, str):
        raise PatebenchError(f"{name} = {quote(value)} is no text")
    return value


def quote(value: object) -> str:
    """Return the value as a message quotes it: on one line, at most 60 characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # Python writes no integer of thousands of digits, and an object may do anything
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
