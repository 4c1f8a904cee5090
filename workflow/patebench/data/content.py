"""When two samples are one: they have the same bytes."""

import hashlib

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
