"""Consistency under strong augmentation, after FixMatch (Sohn et al. 2020), made robust to wrong labels.

The average of the student's weights (a mean teacher, Tarvainen & Valpola 2017) labels weak views of the pool's samples;
where it is confident, the student learns that label on a strong view. What counts as confident falls in the course of
the training: the average is then right about most samples, and what is never learnt stays wrong. The labels
released for large pools are screened first.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patebench.models.precision import reduced
from patebench.students.agreement import agreement
from patebench.students.alignment import Alignment
from patebench.students.lesson import Approach, Lesson, Training
from patebench.students.screening import screened
from patebench.students.semi import LARGE, Batch, SemiSupervised, Steps, model_for, steps_for

#: Screening takes so many times less epochs than learning.
_SHORT = 5


@dataclass(frozen=True, kw_only=True)
class How(Steps):
    """A label of the average is learnt where its probability is above `confident`, which falls to `confident_last`; its
    weight rises over the first share `ramp` of the training.
    """

    labelled: int = 16
    learning_rate: float = 2e-3
    confident: float = 0.95
    confident_last: float = 0.5
    ramp: float = 0.1


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
        agreed = agreement(logits[:size], self.alignment(guess), how.confident, how.confident_last, batch.done)
        return {
            "labelled loss": F.cross_entropy(logits[size:], batch.y),
            "unlabelled loss": min(1.0, batch.done / how.ramp) * agreed,
        }


@torch.no_grad()
def _guess(batch: Batch, average: nn.Module) -> Tensor:
    """The average's probabilities for weak views of the pool's samples."""
    average.eval()
    weak: Tensor = average(batch.views.weak(batch.x))
    return weak.float().softmax(1)


def start(lesson: Lesson, approach: Approach, seed: int) -> Training:
    """A network trained to agree with itself on the pool."""
    how = How(**steps_for(lesson, approach, batch=64, small=150, large=24))
    kept = _screened(lesson, approach, how) if len(lesson.pool) >= LARGE else lesson
    training = _training(kept, model_for(lesson, approach, large="student-cnn"), how)
    training.settings |= {"labels left out": len(lesson.answered) - len(kept.answered)}
    return training


def _screened(lesson: Lesson, approach: Approach, how: How) -> Lesson:
    """The labels that short trainings of a small network confirm; on small pools those would have learnt too little."""
    short, small = replace(how, epochs=math.ceil(how.epochs / _SHORT)), model_for(lesson, approach)
    return screened(lesson, lambda part: _trained(_training(part, small, short)))


def _training(lesson: Lesson, model: str, how: How) -> SemiSupervised:
    alignment = Alignment(lesson)
    return SemiSupervised(lesson, model, how, Consistency(how, alignment), alignment=alignment)


def _trained(training: SemiSupervised) -> SemiSupervised:
    for _ in range(training.epochs):
        training.epoch()
    return training
