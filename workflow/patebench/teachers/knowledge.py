"""What each teacher says of the pool beyond its votes, for PET-DL: probabilities, and the hints of one of its layers.

It is as private as the shards: no noise protects it. Chunks hold it where it is asked for; votes.npz does not.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patebench.teachers.soft import finite_opinions

if TYPE_CHECKING:
    from patebench.teachers.teacher_training import TrainedTeachers

#: What is asked for where no layer is: the probabilities alone.
PROBABILITIES = "probabilities"

#: The largest number in half precision, in which hints are kept.
_MOST = float(np.finfo(np.float16).max)


class Knowledge:
    """Probabilities (teachers, queries, classes) of the pool and, where a layer is named, hints (teachers, queries,
    features).

    `wanted` is None for nothing, `PROBABILITIES`, or the name of a layer for both.
    """

    def __init__(self, wanted: str | None) -> None:
        self.wanted = wanted
        self.found: dict[str, list[NDArray[Any]]] = {}
        self.positions: list[int] = []

    def add(self, positions: Sequence[int], teachers: "TrainedTeachers", queries: NDArray[Any]) -> None:
        """Keep what fitted `teachers` at these positions of the chunk say of the `queries` (queries, …)."""
        if self.wanted is None:
            return
        self.positions += positions
        said = {"probabilities": np.exp(finite_opinions(teachers, queries)).astype(np.float32)}
        if self.wanted != PROBABILITIES:
            hints = np.nan_to_num(teachers.hints(queries, self.wanted), posinf=_MOST, neginf=-_MOST)
            said["hints"] = np.clip(hints, -_MOST, _MOST).astype(np.float16)
        for name, each in said.items():
            self.found.setdefault(name, []).append(each)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays of the chunk's file, in the order of its teachers."""
        order = np.argsort(self.positions)
        return {name: np.concatenate(each)[order] for name, each in self.found.items()}
