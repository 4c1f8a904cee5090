"""Outputs of teachers in addition to votes: sums of probabilities for distillation, outputs per teacher for PET-DL.

No noise protects these outputs, so they are as confidential as the private data, and models trained on them are not
private. Outputs per teacher are stored only in the files of chunks. For distillation, only the sum over teachers is
written.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.files import Artefact

if TYPE_CHECKING:
    from patebench.teachers.teacher_training import TrainedTeachers


class SoftVotes:
    """Sums over teachers of class probabilities that are softened at `temperatures`, for distillation.

    `sums` has shape (temperatures, queries, classes).
    """

    def __init__(self, temperatures: Sequence[float], queries: int, classes: int) -> None:
        self.temperatures = tuple(temperatures)
        self.sums = np.zeros((len(self.temperatures), queries, classes))

    def add(self, teachers: "TrainedTeachers", queries: NDArray[Any]) -> None:
        """Add to `sums` the softened probabilities of fitted `teachers` for the samples `queries` (queries, …)."""
        from scipy.special import softmax

        for log_p in finite_log_probabilities(teachers, queries) if self.temperatures else ():
            logits = log_p.astype(np.float64)  # up to a constant
            self.sums += np.stack([softmax(logits / temperature, axis=-1) for temperature in self.temperatures])

    def arrays(self) -> Mapping[str, NDArray[np.float32]]:
        """Return {"soft": `sums`} for the chunk's file, or an empty mapping if there are no temperatures."""
        return {"soft": self.sums.astype(np.float32)} if self.temperatures else {}


def finite_log_probabilities(teachers: "TrainedTeachers", queries: NDArray[Any]) -> NDArray[np.floating]:
    """Return the teachers' log-probabilities (teachers, queries, classes), with uniform ones in place of NaN.

    A teacher whose training has diverged computes NaN. If one class is NaN, all classes of this query become equally
    likely, so that sums over teachers stay finite.
    """
    log_p = teachers.log_probabilities(queries)
    return np.where(np.isnan(log_p).any(axis=2, keepdims=True), -np.log(log_p.shape[2]), log_p).astype(log_p.dtype)


def join_soft(chunks: Sequence[Artefact]) -> Mapping[str, NDArray[np.float32]]:
    """Return {"soft": sum of the arrays "soft" of all `chunks`}, or an empty mapping if the chunks have none.

    The arrays (temperatures, queries, classes) are sums of softened probabilities over the teachers of a chunk.
    """
    if not chunks[0].meta.get("temperatures"):
        return {}
    total = np.sum(np.stack([chunk["soft"] for chunk in chunks]), axis=0, dtype=np.float64)
    return {"soft": np.asarray(total, np.float32)}


#: Value of `wanted` that requests probabilities but no hints.
PROBABILITIES = "probabilities"

#: The largest number in half precision, in which hints are stored.
_MOST = float(np.finfo(np.float16).max)


class TeacherKnowledge:
    """Store of the outputs of a chunk's teachers on the public queries, from which PET-DL's student learns.

    Class probabilities are (teachers, queries, classes). Hints, the outputs of one hidden layer, are (teachers,
    queries, features). If `wanted` is the name of a layer, class probabilities and hints of this layer are stored. If
    it is `PROBABILITIES`, no hints are stored, and if it is None, nothing is stored.
    """

    def __init__(self, wanted: str | None) -> None:
        self.wanted = wanted
        self.outputs: dict[str, list[NDArray[Any]]] = {}
        self.positions: list[int] = []

    def add(self, positions: Sequence[int], teachers: "TrainedTeachers", queries: NDArray[Any]) -> None:
        """Store the outputs of fitted `teachers` for the samples `queries` (queries, …).

        `positions` are the positions of these teachers in the chunk.
        """
        if self.wanted is None:
            return
        self.positions += positions
        outputs = {"probabilities": np.exp(finite_log_probabilities(teachers, queries)).astype(np.float32)}
        if self.wanted != PROBABILITIES:
            hints = np.nan_to_num(teachers.hints(queries, self.wanted), posinf=_MOST, neginf=-_MOST)
            outputs["hints"] = np.clip(hints, -_MOST, _MOST).astype(np.float16)
        for name, values in outputs.items():
            self.outputs.setdefault(name, []).append(values)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return "probabilities" and, if wanted, "hints" for the chunk's file, in the order of the chunk's teachers."""
        order = np.argsort(self.positions)
        return {name: np.concatenate(values)[order] for name, values in self.outputs.items()}
