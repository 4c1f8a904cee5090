"""Named randomness: every stage draws from a generator derived from (base seed, stream name).

The stream name is the artefact's path below the results folder, so the same experiment gives the same bytes wherever
the results lie, in whatever order the jobs run and however the work is cut into chunks.
"""

import hashlib

import numpy as np


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed for the stream that `names` spell; distinct names give independent streams."""
    words = "\x1f".join(str(name) for name in (seed, *names))
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator for the stream that `names` spell."""
    return np.random.Generator(np.random.PCG64(derive(seed, *names)))
