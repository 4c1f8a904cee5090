"""The teachers' class probabilities for the pool, for distillation; only their sum over teachers is ever written.

Probabilities say much more than votes do, and no mechanism here protects them: nothing learnt from them is private.
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
        """The array "soft" of the chunk's file; none without temperatures."""
        return {"soft": self.sums.astype(np.float32)} if self.temperatures else {}


def finite_opinions(teachers: "TrainedTeachers", queries: NDArray[Any]) -> NDArray[np.floating]:
    """Return log-probabilities (teachers, queries, classes), uniform where those of a teacher are NaN.

    The training of a teacher may diverge on its shard. Then it still votes, and what the others say is still written.
    """
    found = teachers.log_probabilities(queries)
    return np.where(np.isnan(found).any(axis=2, keepdims=True), -np.log(found.shape[2]), found).astype(found.dtype)


def softened(log_probabilities: NDArray[np.floating], temperature: float) -> NDArray[np.float64]:
    """softmax(logits / temperature) (…, classes), where `log_probabilities` are the logits up to a constant."""
    scaled = log_probabilities.astype(np.float64) / temperature
    exponentials = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    probabilities: NDArray[np.float64] = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return probabilities


def joined(chunks: Sequence[Artefact]) -> Mapping[str, NDArray[np.float32]]:
    """The array "soft" of the whole ensemble, the sum of that of its chunks; none if they have none."""
    if not chunks[0].meta.get("temperatures"):
        return {}
    total = np.sum(np.stack([chunk["soft"] for chunk in chunks]), axis=0, dtype=np.float64)
    return {"soft": np.asarray(total, np.float32)}
