"""Consistency under strong augmentation, after FixMatch (Sohn et al. 2020), made robust to wrong labels.

The average of the student's weights (a mean teacher, Tarvainen & Valpola 2017) labels weak views of the pool's samples;
where it is confident, the student learns that label on a strong view. Past the beginning, a released label that the
average finds improbable is no longer learnt: among noisy answers it is more likely wrong than all others together.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patebench.models.precision import reduced
from patebench.students.lesson import Approach, Lesson, Training
from patebench.students.semi import Batch, SemiSupervised, Steps, steps_for


@dataclass(frozen=True, kw_only=True)
class Consistency(Steps):
    """`confident` is the probability above which a label of the average is learnt, its weight rising over the first
    share `ramp` of the training; after the share `trust`, released labels below the probability `improbable` are not.
    """

    labelled: int = 16
    confident: float = 0.95
    ramp: float = 0.1
    trust: float = 0.3
    improbable: float = 0.1

    def __call__(self, batch: Batch, student: nn.Module, average: nn.Module) -> Mapping[str, Tensor]:
        with reduced(batch.x.device):
            guess = self._guess(batch, average)
            views = torch.cat([batch.views.strong(batch.x), batch.views.strong(batch.labelled)])
            logits = student(views).float()
        probability, label = guess[: len(batch.x)].max(1)
        unlabelled = F.cross_entropy(logits[: len(batch.x)], label, reduction="none")
        labelled = F.cross_entropy(logits[len(batch.x) :], batch.y, reduction="none")
        believed = guess[len(batch.x) :].gather(1, batch.y[:, None])[:, 0] > self.improbable
        learnt = believed | (batch.done < self.trust)
        weight = min(1.0, batch.done / self.ramp)
        return {
            "labelled loss": (labelled * learnt).mean(),
            "unlabelled loss": weight * (unlabelled * (probability > self.confident)).mean(),
        }

    @torch.no_grad()
    def _guess(self, batch: Batch, average: nn.Module) -> Tensor:
        """The average's probabilities for weak views of the pool's samples, then of the labelled ones."""
        average.eval()
        weak: Tensor = average(batch.views.weak(torch.cat([batch.x, batch.labelled])))
        return weak.float().softmax(1)


def start(lesson: Lesson, approach: Approach, seed: int) -> Training:
    """A network trained to agree with itself on the pool."""
    how = Consistency(**steps_for(lesson, approach, small=150, large=200))
    return SemiSupervised(lesson, approach, how, how)
