"""When two samples are one: they have the same bytes."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def content(x: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.uint64]:
    """A hash of each sample's content; x is (samples, …), and the two floating-point zeros count as one.

    Should two samples collide, one too many is left out and none is let through.
    """
    if x.dtype.kind == "f":
        x = np.where(x == 0, np.zeros((), x.dtype), x)
    digests = b"".join(hashlib.blake2b(sample, digest_size=8).digest() for sample in np.ascontiguousarray(x))
    return np.frombuffer(digests, dtype=np.uint64)


def records(x: NDArray[Any], y: NDArray[Any]) -> str:
    """A digest of all records, x (samples, …) with labels y, whatever their order: who holds the data can tell it."""
    each = np.stack([content(x), y.astype(np.uint64)], axis=1)
    return hashlib.sha256(each[np.lexsort(each.T)].tobytes()).hexdigest()
