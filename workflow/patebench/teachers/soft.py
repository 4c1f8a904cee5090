"""What teachers think of the pool beside their votes, for distillation: summed at once, so that no teacher's travels.

Probabilities say much more than votes do, and no mechanism here protects them: nothing learnt from them is private.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.files import Artefact

if TYPE_CHECKING:
    from patebench.teachers.training import Trained


class SoftVotes:
    """The sum of teachers' probabilities at each of some temperatures: temperatures × queries × classes."""

    def __init__(self, temperatures: Sequence[float], queries: int, classes: int) -> None:
        self.temperatures = tuple(temperatures)
        self.sums = np.zeros((len(self.temperatures), queries, classes))

    def add(self, teachers: "Trained", queries: NDArray[Any]) -> None:
        """Add what fitted teachers think of the queries, if any temperature asks for it."""
        for log_probabilities in teachers.log_probabilities(queries) if self.temperatures else ():
            self.sums += np.stack([softened(log_probabilities, temperature) for temperature in self.temperatures])

    def arrays(self) -> Mapping[str, NDArray[np.float32]]:
        """What goes into the file of the chunk."""
        return {"soft": self.sums.astype(np.float32)} if self.temperatures else {}


def softened(log_probabilities: NDArray[np.floating], temperature: float) -> NDArray[np.float64]:
    """The softmax of logits / temperature (…, classes), from log-probabilities: they are logits less a constant."""
    scaled = log_probabilities.astype(np.float64) / temperature
    chances = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    probabilities: NDArray[np.float64] = chances / chances.sum(axis=-1, keepdims=True)
    return probabilities


def joined(chunks: Sequence[Artefact]) -> Mapping[str, NDArray[np.float32]]:
    """The sums of all chunks together, if they hold any."""
    if not chunks[0].meta.get("temperatures"):
        return {}
    total = np.sum(np.stack([chunk["soft"] for chunk in chunks]), axis=0, dtype=np.float64)
    return {"soft": np.asarray(total, np.float32)}
