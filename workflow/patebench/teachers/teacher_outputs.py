"""Outputs of teachers beyond their votes: sums of probabilities for distillation, and knowledge for PET-DL.

Both are as private as the shards: no noise protects them, and models trained on them are not private. Only chunk files
store the knowledge. For distillation, only the sum of the probabilities over teachers is ever written.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.files import Artefact

if TYPE_CHECKING:
    from patebench.teachers.teacher_training import TrainedTeachers


class SoftVotes:
    """The sum of teachers' class probabilities at each of the `temperatures`: (temperatures, queries, classes)."""

    def __init__(self, temperatures: Sequence[float], queries: int, classes: int) -> None:
        self.temperatures = tuple(temperatures)
        self.sums = np.zeros((len(self.temperatures), queries, classes))

    def add(self, teachers: "TrainedTeachers", queries: NDArray[Any]) -> None:
        """Add the probabilities of fitted `teachers` for the `queries` (queries, …), if there are temperatures."""
        for log_probabilities in finite_opinions(teachers, queries) if self.temperatures else ():
            self.sums += np.stack([softened(log_probabilities, temperature) for temperature in self.temperatures])

    def arrays(self) -> Mapping[str, NDArray[np.float32]]:
        """Return the array "soft" of the chunk's file; none without temperatures."""
        return {"soft": self.sums.astype(np.float32)} if self.temperatures else {}


def finite_opinions(teachers: "TrainedTeachers", queries: NDArray[Any]) -> NDArray[np.floating]:
    """Return log-probabilities (teachers, queries, classes), uniform where those of a teacher are NaN.

    Training may diverge on a teacher's shard. That teacher still votes, and the outputs of the others are still
    written.
    """
    log_p = teachers.log_probabilities(queries)
    return np.where(np.isnan(log_p).any(axis=2, keepdims=True), -np.log(log_p.shape[2]), log_p).astype(log_p.dtype)


def softened(log_probabilities: NDArray[np.floating], temperature: float) -> NDArray[np.float64]:
    """Return softmax(logits / temperature) (…, classes); `log_probabilities` are the logits up to a constant."""
    scaled = log_probabilities.astype(np.float64) / temperature
    exponentials = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    probabilities: NDArray[np.float64] = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return probabilities


def join_soft(chunks: Sequence[Artefact]) -> Mapping[str, NDArray[np.float32]]:
    """Return the array "soft" of the whole ensemble, summed over its chunks; no array if they have none."""
    if not chunks[0].meta.get("temperatures"):
        return {}
    total = np.sum(np.stack([chunk["soft"] for chunk in chunks]), axis=0, dtype=np.float64)
    return {"soft": np.asarray(total, np.float32)}


#: Value of `wanted` for probabilities without the hints of a layer.
PROBABILITIES = "probabilities"

#: The largest number in half precision, in which hints are stored.
_MOST = float(np.finfo(np.float16).max)


class TeacherKnowledge:
    """Probabilities of the pool and, if a layer is named, hints, for each teacher of a chunk.

    Probabilities are (teachers, queries, classes), hints (teachers, queries, features). `wanted` is None for nothing,
    `PROBABILITIES`, or the name of a layer for both.
    """

    def __init__(self, wanted: str | None) -> None:
        self.wanted = wanted
        self.outputs: dict[str, list[NDArray[Any]]] = {}
        self.positions: list[int] = []

    def add(self, positions: Sequence[int], teachers: "TrainedTeachers", queries: NDArray[Any]) -> None:
        """Add the outputs of fitted `teachers`, at these positions of the chunk, for the `queries` (queries, …)."""
        if self.wanted is None:
            return
        self.positions += positions
        outputs = {"probabilities": np.exp(finite_opinions(teachers, queries)).astype(np.float32)}
        if self.wanted != PROBABILITIES:
            hints = np.nan_to_num(teachers.hints(queries, self.wanted), posinf=_MOST, neginf=-_MOST)
            outputs["hints"] = np.clip(hints, -_MOST, _MOST).astype(np.float16)
        for name, values in outputs.items():
            self.outputs.setdefault(name, []).append(values)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return the arrays of the chunk's file, in the order of its teachers."""
        order = np.argsort(self.positions)
        return {name: np.concatenate(values)[order] for name, values in self.outputs.items()}
