"""Virtual adversarial training with entropy minimisation (Miyato et al. 2018), the student of Scalable PATE for SVHN.

The student learns predictions that are stable around each sample. The training moves a sample by a fixed distance in
the adversarial direction, in which the prediction changes most. One power iteration finds this direction. Samples are
seen in strong views; Miyato et al. also augment images, by shifts and flips.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patebench.models.device import autocast
from patebench.students.interface import StudentConfig, StudentData, StudentTrainer
from patebench.students.semi_supervised import (
    Batch,
    SemiSupervisedSettings,
    SemiSupervisedTrainer,
    batch_and_epochs,
    model_for,
)

#: The step of the finite difference, in units of a sample's norm (ξ in Miyato et al.).
_XI = 1e-2


@dataclass(frozen=True, kw_only=True)
class VATSettings(SemiSupervisedSettings):
    """Settings of virtual adversarial training.

    `radius` is the length of the adversarial change of a sample, in units of √(number of features), the norm of a
    standardised sample. The weight of adversarial and entropy terms rises from 0 to 1 over the first share `ramp` of
    the training.
    """

    radius: float = 0.2
    ramp: float = 0.1


class VATTrainer(SemiSupervisedTrainer):
    """Trainer that minimises cross-entropy to released labels, adversarial divergence, and entropy of predictions.

    The divergence is KL(p ‖ q), with p the prediction for a sample, and q the prediction for the sample moved in its
    adversarial direction.
    """

    hyperparameters: VATSettings

    def losses(self, batch: Batch) -> Mapping[str, Tensor]:
        x = self.view(batch.x, "strong")
        with autocast(self.device):
            logits = self.net(torch.cat([x, self.view(batch.labelled, "strong")])).float()
        unlabelled, labelled = logits.split([len(x), len(batch.labelled)])
        target = unlabelled.detach().softmax(1)
        adversarial = x + self.hyperparameters.radius * _adversarial_direction(self.net, x, target)
        with autocast(self.device):
            divergence = _mean_divergence(target, self.net(adversarial).float())
        entropy = -(unlabelled.softmax(1) * unlabelled.log_softmax(1)).sum(1).mean()
        weight = min(1.0, batch.progress / self.hyperparameters.ramp)
        return {
            "labelled loss": F.cross_entropy(labelled, batch.y),
            "adversarial loss": weight * divergence,
            "entropy": weight * entropy,
        }


def _adversarial_direction(student: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    """Return, for each sample of `x`, the direction in which the prediction of `student` changes fastest.

    `target` (samples, classes) are the class probabilities that `student` predicts for `x`.
    """
    direction = _normalise_samples(torch.randn_like(x)).requires_grad_()
    divergence = _mean_divergence(target, student(x + _XI * direction))
    (gradient,) = torch.autograd.grad(divergence, direction)
    return _normalise_samples(gradient.detach())


def _normalise_samples(x: Tensor) -> Tensor:
    """Scale each sample of `x` to the norm of a standardised sample, √(number of features)."""
    norm = x.flatten(1).norm(dim=1).clamp_min(1e-12).view(-1, *[1] * (x.ndim - 1))
    return x * (math.sqrt(x[0].numel()) / norm)


def _mean_divergence(target: Tensor, logits: Tensor) -> Tensor:
    """Return the mean over samples of KL(`target` ‖ softmax(`logits`)), for arrays (samples, classes)."""
    return F.kl_div(logits.log_softmax(1), target, reduction="batchmean")


def trainer(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the VAT trainer of the model `config.model` or, if this is None, of a default model for the pool.

    Random draws come from torch's global generator, which `student_training.train` seeds.
    """
    colour = data.pool.ndim == 4 and data.pool.shape[1] > 1
    sizes = batch_and_epochs(data, config, batch=256, small=120, large=80)
    settings = VATSettings(**sizes, radius=0.06 if colour else 0.2)
    return VATTrainer(data, model_for(data, config), settings)
