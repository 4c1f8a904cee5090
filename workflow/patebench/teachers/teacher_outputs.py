"""Outputs of teachers in addition to votes: sums of probabilities for distillation, outputs per teacher for PET-DL.

No noise protects these outputs, so they are as confidential as the private data, and models trained on them are not
private. For PET-DL, the outputs of each teacher are stored, but only in the files of chunks of teachers. For
distillation, only sums over teachers are stored.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from patebench.teachers.teacher_training import TrainedTeachers


#: Value of `hints` that requests the probabilities of each teacher but no hints.
PROBABILITIES = "probabilities"

#: The largest number in half precision, in which hints are stored.
_MOST = float(np.finfo(np.float16).max)


class TeacherOutputs:
    """Store of the outputs of a chunk's teachers on the public queries, in addition to their votes.

    Parameters
    ----------
    temperatures : temperatures for distillation. At each of these, class probabilities are softened and summed over
        teachers
    hints : what is stored for PET-DL. None: nothing. "probabilities": each teacher's class probabilities (teachers,
        queries, classes). The name of a hidden layer: the class probabilities, and the outputs of this layer (teachers,
        queries, features)
    """

    def __init__(self, temperatures: Sequence[float], hints: str | None) -> None:
        self.temperatures, self.hints = temperatures, hints
        self.soft: NDArray[np.float64] | float = 0.0
        self.outputs: dict[str, list[NDArray[Any]]] = {}
        self.positions: list[int] = []

    def add(self, positions: Sequence[int], teachers: "TrainedTeachers", queries: NDArray[Any]) -> None:
        """Store the outputs of fitted `teachers` for the samples `queries` (queries, …).

        `positions` are the positions of these teachers in the chunk.
        """
        from scipy.special import softmax

        if not self.temperatures and self.hints is None:
            return
        log_p = teachers.log_probabilities(queries)
        # A teacher whose training has diverged computes NaN. If one class is NaN, all classes of this query become
        # equally likely, so that sums over teachers stay finite.
        diverged = np.isnan(log_p).any(axis=2, keepdims=True)
        log_p = np.where(diverged, -np.log(log_p.shape[2]), log_p).astype(log_p.dtype)
        for of_teacher in log_p if self.temperatures else ():
            logits = of_teacher.astype(np.float64)  # up to a constant
            self.soft += np.stack([softmax(logits / temperature, axis=-1) for temperature in self.temperatures])
        if self.hints is None:
            return
        self.positions += positions
        outputs = {"probabilities": np.exp(log_p).astype(np.float32)}
        if self.hints != PROBABILITIES:
            hints = np.nan_to_num(teachers.hints(queries, self.hints), posinf=_MOST, neginf=-_MOST)
            outputs["hints"] = np.clip(hints, -_MOST, _MOST).astype(np.float16)
        for name, values in outputs.items():
            self.outputs.setdefault(name, []).append(values)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the requested arrays "soft", "probabilities" and "hints" for the chunk's file.

        "soft" (temperatures, queries, classes) contains the softened probabilities, summed over teachers. The other
        arrays have one entry per teacher, in the order of the chunk.
        """
        order = np.argsort(self.positions)
        arrays = {name: np.concatenate(values)[order] for name, values in self.outputs.items()}
        return arrays | ({"soft": np.asarray(self.soft, np.float32)} if self.temperatures else {})
