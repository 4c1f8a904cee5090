"""Named random streams: every stage draws from a generator derived from (base seed, stream name).

The stream name is derived from the artefact's folder, relative to the results folder. An experiment therefore gives the
same files wherever the results are stored, and in any order of jobs.
"""

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray


class Mode(StrEnum):
    """Source of the noise of a label set: a seeded generator, or the operating system for releases."""

    SEEDED = "seeded"  # a named stream: reproducible, for experiments
    RELEASE = "release"  # discrete noise from the operating system's entropy, for labels that are released


class Source(Protocol):
    """A source of noise for mechanisms: a NumPy generator, or the operating system's entropy (`entropy.Entropy`)."""

    def laplace(self, *, scale: float, size: int | tuple[int, ...]) -> NDArray[Any]: ...

    def normal(self, *, scale: float, size: int | tuple[int, ...]) -> NDArray[Any]: ...

    def exponential(self, *, scale: float, size: int | tuple[int, ...]) -> NDArray[Any]: ...

    def random(self, size: int | tuple[int, ...]) -> NDArray[Any]: ...

    def integers(self, low: int, high: int, *, size: int | tuple[int, ...]) -> NDArray[Any]: ...

    def spawn(self, n_children: int) -> Sequence[Self]: ...


#: Renamed word of a folder name → first spelling of the word, which stream names keep. Add a line when you rename a
#: folder, a parameter or a registry entry, so that random numbers do not change.
RENAMED: Mapping[str, str] = {}


def stream_name(folder: str) -> str:
    """Return the name of the random stream of the artefact in `folder`, a path below the results.

    The name is `folder`, but with the original spelling of each word that was renamed (see `RENAMED`). Renaming a
    parameter therefore changes no random numbers: if `sigma` is renamed to `std`, the folder `gnmax/std-20` has the
    stream `gnmax/sigma-20`.
    """
    return "/".join("_".join(map(_first_spelling, step.split("_"))) for step in folder.split("/"))


def _first_spelling(word: str) -> str:
    for new, first in RENAMED.items():
        if word == new or word.startswith(f"{new}-"):
            return first + word.removeprefix(new)
    return word


def derive(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed for a random stream, derived from `seed` and the stream's name.

    `names` are the parts of the name. Streams with different names are independent.
    """
    words = "\x1f".join(str(name) for name in (seed, *names))
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return a NumPy generator for the stream `names`, with the seed that `derive` gives."""
    return np.random.Generator(np.random.PCG64(derive(seed, *names)))
