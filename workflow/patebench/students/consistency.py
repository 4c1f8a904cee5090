"""Consistency under strong augmentation, after FixMatch (Sohn et al. 2020), made robust to wrong labels.

The average of the student's weights (a mean teacher, Tarvainen & Valpola 2017) labels weak views of the pool's samples;
where it is confident, the student learns that label on a strong view. What counts as confident falls in the course of
the training: the average is then right about most samples, and what is never learnt stays wrong. Past the beginning, a
released label that the average finds improbable is no longer learnt: among noisy answers it is more likely wrong than
all others together.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patebench.models.precision import reduced
from patebench.students.alignment import Alignment
from patebench.students.lesson import Approach, Lesson, Training
from patebench.students.semi import Batch, SemiSupervised, Steps, model_for, steps_for


@dataclass(frozen=True, kw_only=True)
class How(Steps):
    """A label of the average is learnt where its probability is above `confident`, which falls to `confident_last`; its
    weight rises over the first share `ramp` of the training. After the share `trust`, released labels below the
    probability `improbable` are not learnt.
    """

    labelled: int = 16
    learning_rate: float = 2e-3
    confident: float = 0.95
    confident_last: float = 0.5
    ramp: float = 0.1
    trust: float = 0.3
    improbable: float = 0.1


class Consistency:
    """The objective; see the file's words."""

    def __init__(self, how: How, alignment: Alignment) -> None:
        self.how, self.alignment = how, alignment

    def __call__(self, batch: Batch, student: nn.Module, average: nn.Module) -> Mapping[str, Tensor]:
        how, size = self.how, len(batch.x)
        with reduced(batch.x.device):
            guess = _guess(batch, average)
            views = torch.cat([batch.views.strong(batch.x), batch.views.strong(batch.labelled)])
            logits = student(views).float()
        probability, label = self.alignment(guess[:size]).max(1)
        sure = probability > how.confident + batch.done * (how.confident_last - how.confident)
        unlabelled = F.cross_entropy(logits[:size], label, reduction="none")
        labelled = F.cross_entropy(logits[size:], batch.y, reduction="none")
        believed = guess[size:].gather(1, batch.y[:, None])[:, 0] > how.improbable
        learnt = believed | (batch.done < how.trust)
        weight = min(1.0, batch.done / how.ramp)
        return {
            "labelled loss": (labelled * learnt).mean(),
            "unlabelled loss": weight * (unlabelled * sure).mean(),
        }


@torch.no_grad()
def _guess(batch: Batch, average: nn.Module) -> Tensor:
    """The average's probabilities for weak views of the pool's samples, then of the labelled ones."""
    average.eval()
    weak: Tensor = average(batch.views.weak(torch.cat([batch.x, batch.labelled])))
    return weak.float().softmax(1)


def start(lesson: Lesson, approach: Approach, seed: int) -> Training:
    """A network trained to agree with itself on the pool."""
    model = model_for(lesson, approach, large="student-cnn")
    how = How(**steps_for(lesson, approach, batch=64, small=100, large=30))
    alignment = Alignment(lesson)
    return SemiSupervised(lesson, model, how, Consistency(how, alignment), alignment=alignment)
