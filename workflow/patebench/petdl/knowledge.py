"""What the teachers of an ensemble say of public samples, and the vectors that are made of it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

#: The least probability that a logarithm is taken of.
_LEAST = 1e-30


@dataclass(frozen=True)
class Knowledge:
    """Probabilities (teachers, samples, classes), and hints (teachers, samples, features) where there are any."""

    probabilities: Tensor
    hints: Tensor | None = None

    @property
    def teachers(self) -> int:
        return len(self.probabilities)

    @property
    def samples(self) -> int:
        return self.probabilities.shape[1]

    @property
    def features(self) -> int:
        """Of a hint; 0 where there are none."""
        return 0 if self.hints is None else self.hints.shape[2]

    def first(self, samples: int) -> "Knowledge":
        """What is said of the first samples alone."""
        hints = None if self.hints is None else self.hints[:, :samples]
        return replace(self, probabilities=self.probabilities[:, :samples], hints=hints)

    def to(self, device: torch.device) -> "Knowledge":
        """The same on that device, where the student's samples are."""
        hints = None if self.hints is None else self.hints.to(device)
        return replace(self, probabilities=self.probabilities.to(device), hints=hints)

    def softened(self, temperature: float, rows: Tensor) -> Tensor:
        """softmax(logits / temperature) (teachers, rows, classes) of some of the samples."""
        found: Tensor = (self.probabilities[:, rows].clamp_min(_LEAST).log() / temperature).softmax(2)
        return found

    def confidence(self, rows: Tensor) -> Tensor:
        """Each teacher's largest probability (teachers, rows), which says how sure it is of some of the samples."""
        return self.probabilities[:, rows].amax(2)

    def hints_of(self, rows: Tensor) -> Tensor:
        """The hints (teachers, rows, features) of some of the samples."""
        assert self.hints is not None
        return self.hints[:, rows].float()
