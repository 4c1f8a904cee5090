"""Distribution alignment (Berthelot et al. 2020, *ReMixMatch*, section 3.1): over the pool, guesses give each class its
share. A student that takes many 4s for 9s finds it out by counting.

What share a class has is estimated from the released labels, which are few and partly wrong, so it is drawn towards
equal shares: as if each class had some labels more.
"""

import torch
from torch import Tensor, nn

from patebench.students.lesson import Lesson

#: So many labels more for each class.
_MORE = 10
#: The average share of a class among guesses forgets a batch at this rate.
_DECAY = 0.99


class Alignment(nn.Module):
    """Scales probabilities so that over the pool their mean goes towards the shares of the classes."""

    shares: Tensor
    guessed: Tensor

    def __init__(self, lesson: Lesson) -> None:
        super().__init__()
        labels = torch.from_numpy(lesson.labels[lesson.answered])
        counts = torch.bincount(labels, minlength=lesson.classes) + float(_MORE)
        self.register_buffer("shares", counts / counts.sum())
        self.register_buffer("guessed", torch.full((lesson.classes,), 1 / lesson.classes))

    @torch.no_grad()
    def forward(self, guess: Tensor) -> Tensor:
        """The aligned probabilities (samples, classes) of a batch, which also counts for the batches to come."""
        self.guessed.lerp_(guess.mean(0), 1 - _DECAY)
        aligned = guess * (self.shares / self.guessed)
        return aligned / aligned.sum(1, keepdim=True)
