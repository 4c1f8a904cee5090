"""Public pools from elsewhere: images changed as a whole, so that private ones are of another kind than public ones.

For showing what a method that learns from a public pool does where that pool is not of the private kind.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError

#: What is done to images (samples, channels, height, width) of bytes.
SHIFTS: Mapping[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "inverted": lambda x: 255 - x,
    "rotated": lambda x: np.ascontiguousarray(np.rot90(x, axes=(2, 3))),
}


def shifted(x: NDArray[Any], shift: str | None) -> NDArray[Any]:
    """Images `x` after the shift of that name, or as they are without one. PatebenchError for tables."""
    if shift is None:
        return x
    if x.ndim != 4:
        raise PatebenchError(f"these samples are no images, so they can not be {shift}; leave out pool_shift")
    return SHIFTS[shift](x)
