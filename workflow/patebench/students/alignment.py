"""Distribution alignment (Berthelot et al. 2020, *ReMixMatch*, section 3.1): over the pool, guesses give each class its
share. A student that takes many 4s for 9s finds it out by counting.

What share a class has is estimated from the released labels. They are few, so unequal counts are chance for the most
part: shares are drawn towards equal ones by as much of Pearson's χ² as chance explains, which is the number of classes
less one on average (the positive-part estimator of James & Stein, as in Efron & Morris 1975, *Data analysis using
Stein's estimator and its generalizations*).
"""

import torch
from torch import Tensor, nn

from patebench.students.lesson import Lesson

#: The average share of a class among guesses forgets a batch at this rate.
_DECAY = 0.99


class Alignment(nn.Module):
    """Scales probabilities so that over the pool their mean goes towards the shares of the classes."""

    shares: Tensor
    guessed: Tensor

    def __init__(self, lesson: Lesson) -> None:
        super().__init__()
        labels = torch.from_numpy(lesson.labels[lesson.answered])
        self.register_buffer("shares", shares(torch.bincount(labels, minlength=lesson.classes)))
        self.register_buffer("guessed", torch.full((lesson.classes,), 1 / lesson.classes))

    @torch.no_grad()
    def forward(self, guess: Tensor) -> Tensor:
        """The aligned probabilities (samples, classes) of a batch, which also counts for the batches to come."""
        self.guessed.lerp_(guess.mean(0), 1 - _DECAY)
        aligned = guess * (self.shares / self.guessed)
        return aligned / aligned.sum(1, keepdim=True)


def shares(counts: Tensor) -> Tensor:
    """The estimated shares (classes,) of classes with so many labels, above 0 and 1 together; without one, equal."""
    classes, equal = len(counts), counts.sum() / len(counts)
    chi = (counts - equal).square().sum() / equal
    kept = (1 - (classes - 1) / chi).clamp_min(0).nan_to_num(0.0)
    return kept * counts / counts.sum().clamp_min(1) + (1 - kept) / classes
