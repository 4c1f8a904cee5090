"""Named randomness: every stage draws from a generator derived from (base seed, stream name).

The stream name follows from the artefact's folder below the results, so the same experiment gives the same bytes
wherever the results lie, in whatever order the jobs run and however the work is cut into chunks.
"""

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray


class Mode(StrEnum):
    """Where the noise of a label set comes from."""

    SEEDED = "seeded"  # a named stream: anybody can draw it again, so it is for experiments
    RELEASE = "release"  # the operating system's entropy, discrete: for labels that are handed out


class Source(Protocol):
    """What mechanisms draw from: a NumPy generator, or the operating system's entropy (`entropy.Entropy`)."""

    def laplace(self, *, scale: float, size: int | tuple[int, ...]) -> NDArray[Any]: ...

    def normal(self, *, scale: float, size: int | tuple[int, ...]) -> NDArray[Any]: ...

    def exponential(self, *, scale: float, size: int | tuple[int, ...]) -> NDArray[Any]: ...

    def random(self, size: int | tuple[int, ...]) -> NDArray[Any]: ...

    def integers(self, low: int, high: int, *, size: int | tuple[int, ...]) -> NDArray[Any]: ...

    def spawn(self, n_children: int) -> Sequence[Self]: ...


#: Words of folder names that were renamed → the words that streams keep. Whoever renames a folder, a parameter or the
#: entry of a registry adds a line here, so that no random number changes.
RENAMED: Mapping[str, str] = {}


def stream_name(folder: str) -> str:
    """Return the name of the random stream of the artefact in `folder`, a path below the results.

    It is frozen: it spells each word of the folder, as `sigma-20` in `gnmax/sigma-20_release`, as when it was first
    used.
    """
    return "/".join("_".join(map(_first_spelling, step.split("_"))) for step in folder.split("/"))


def _first_spelling(word: str) -> str:
    for new, first in RENAMED.items():
        if word == new or word.startswith(f"{new}-"):
            return first + word.removeprefix(new)
    return word


def derive(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed for the stream that `names` spell; distinct names give independent streams."""
    words = "\x1f".join(str(name) for name in (seed, *names))
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return a NumPy generator for the stream that `names` spell."""
    return np.random.Generator(np.random.PCG64(derive(seed, *names)))
