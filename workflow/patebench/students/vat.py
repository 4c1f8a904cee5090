"""Virtual adversarial training with entropy minimisation (Miyato et al. 2018), the student of Scalable PATE for SVHN.

The student's answer must not change within a ball around each sample, in the direction where it would change most; one
power iteration finds that direction. Samples are seen in strong views, as Miyato et al. move and flip theirs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patebench.models.precision import reduced
from patebench.students.lesson import Approach, Lesson, Training
from patebench.students.semi import Batch, SemiSupervised, Steps, model_for, steps_for

#: The step of the finite difference, in units of a sample's size.
_XI = 1e-2


@dataclass(frozen=True, kw_only=True)
class VirtualAdversarial(Steps):
    """`radius` is the ball's, as a share of the size of a standardised sample, √(number of features)."""

    radius: float = 0.2
    ramp: float = 0.1

    def __call__(self, batch: Batch, student: nn.Module, average: nn.Module) -> Mapping[str, Tensor]:
        x = batch.views.strong(batch.x)
        with reduced(x.device):
            logits = student(torch.cat([x, batch.views.strong(batch.labelled)])).float()
        clean, labelled = logits.split([len(x), len(batch.labelled)])
        target = clean.detach().softmax(1)
        moved = x + self.radius * _adversary(student, x, target)
        with reduced(x.device):
            away = _divergence(target, student(moved).float())
        entropy = -(clean.softmax(1) * clean.log_softmax(1)).sum(1).mean()
        weight = min(1.0, batch.done / self.ramp)
        return {
            "labelled loss": F.cross_entropy(labelled, batch.y),
            "adversarial loss": weight * away,
            "entropy": weight * entropy,
        }


def _adversary(student: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    """For each sample the direction in which the student's answer changes most, as long as a sample is large."""
    direction = _sized(torch.randn_like(x)).requires_grad_()
    away = _divergence(target, student(x + _XI * direction))
    (gradient,) = torch.autograd.grad(away, direction)
    return _sized(gradient.detach())


def _sized(x: Tensor) -> Tensor:
    """`x` with each sample scaled to the norm √(number of features)."""
    size = x.flatten(1).norm(dim=1).clamp_min(1e-12).view(-1, *[1] * (x.ndim - 1))
    sized: Tensor = x * (math.sqrt(x[0].numel()) / size)
    return sized


def _divergence(target: Tensor, logits: Tensor) -> Tensor:
    return F.kl_div(logits.log_softmax(1), target, reduction="batchmean")


def start(lesson: Lesson, approach: Approach, seed: int) -> Training:
    """A network that is smooth around the samples of the pool."""
    colours = lesson.pool.ndim == 4 and lesson.pool.shape[1] > 1
    steps = steps_for(lesson, approach, batch=256, small=120, large=80)
    how = VirtualAdversarial(**steps, radius=0.06 if colours else 0.2)
    return SemiSupervised(lesson, model_for(lesson, approach), how, how)
