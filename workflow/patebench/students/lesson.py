"""What a student sees and how it is asked to learn: plain values, free of torch and of files."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """Everything that a student may learn from.

    `pool` holds all public samples (samples, …); `labels` (samples,) what was released for each, −1 where nothing was
    asked or answered. `evidence` (samples, classes), for local mechanisms only, is the log-likelihood of what the
    teachers released for each class: public, since their channel is. Nothing is known of it for other mechanisms.
    """

    pool: NDArray[Any]
    labels: NDArray[np.int64]
    classes: int
    evidence: NDArray[np.float64] | None = None

    @property
    def answered(self) -> NDArray[np.intp]:
        """The positions in the pool that have a label."""
        return np.flatnonzero(self.labels >= 0)

    def without(self, held_out: NDArray[np.intp]) -> "Lesson":
        """The same lesson with the labels at `held_out` kept from the student."""
        labels = self.labels.copy()
        labels[held_out] = -1
        return replace(self, labels=labels)


@dataclass(frozen=True, kw_only=True)
class Approach:
    """How a student is asked to learn; None leaves the choice to the method, which looks at the data's shape."""

    method: str
    model: str | None = None
    recipe: str | None = None
    epochs: int | None = None


class Student(Protocol):
    """What has been learnt."""

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Log-probabilities (samples, classes) of the classes of samples `x`."""


class Training(Student, Protocol):
    """A student in the making: `epochs` calls of `epoch`, with its whole state between them open to a checkpoint.

    All randomness is torch's global generator or part of `state`.
    """

    #: What is trained, by which recipe ("own" where the method has none of the registry), and for how long at most.
    model: str
    recipe: str
    epochs: int
    #: Further numbers and words that say how it learns.
    settings: dict[str, Any]

    def epoch(self) -> dict[str, float]:
        """Learn for one epoch; what is worth drawing of it, such as its mean losses, by name."""

    def state(self) -> dict[str, Any]:
        """Tensors, numbers, text and containers of them: all that the remaining epochs depend on."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned in another process."""
