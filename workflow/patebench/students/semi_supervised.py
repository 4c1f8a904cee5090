"""Trainers of students that also learn from unlabelled samples: steps, learning-rate schedule, EMA of the weights.

A method defines the loss of one step. One epoch passes once over the whole pool.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.models.architectures import untrained_network
from patebench.models.augment import random_view
from patebench.models.device import autocast, device
from patebench.models.network import seeded
from patebench.models.optimisers import AdamW, ema_copy, ema_update
from patebench.students.interface import StudentConfig, StudentData

#: Minimum number of samples of a large pool.
LARGE = 2000
#: Decay per batch of the moving average of the mean prediction, in `DistributionAlignment`.
_GUESS_DECAY = 0.99
#: Number of views, in addition to the image itself, that a prediction averages (test-time augmentation).
_VIEWS = 5
#: Samples in one batch of predictions.
_PREDICT_BATCH = 200


@dataclass(frozen=True)
class Batch:
    """Samples of one training step: `x` from the pool, and `labelled` with the released labels `y`.

    Shapes are `x` (samples, …), `labelled` (labels, …) and `y` (labels,). All samples are scaled for the network.
    `rows` (samples,) are the positions of `x` in the pool, and `progress` is the share of all training steps taken
    before this one, in [0, 1).
    """

    x: Tensor
    labelled: Tensor
    y: Tensor
    progress: float
    rows: Tensor


@dataclass(frozen=True, kw_only=True)
class SemiSupervisedSettings:
    """Settings of training by AdamW with a one-cycle schedule, and of the EMA of the weights.

    `learning_rate` is the maximum of the schedule, and `decay` is the decay of the EMA per step. A step takes `batch`
    samples of the pool and `labelled` samples with labels.
    """

    epochs: int
    batch: int
    labelled: int = 64
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2
    decay: float = 0.99


def batch_and_epochs(data: StudentData, config: StudentConfig, *, batch: int, small: int, large: int) -> dict[str, int]:
    """Return the settings "batch" (number of samples of the pool per step) and "epochs" for this pool.

    "batch" is the smaller one of `batch` and an eighth of the pool; an eighth below 16 counts as 16. "epochs" is
    `config.epochs` or, if None, `small` for pools with fewer than `LARGE` samples and `large` for others.
    """
    batch = min(batch, max(16, len(data.pool) // 8))
    return {"batch": batch, "epochs": config.epochs or (small if len(data.pool) < LARGE else large)}


def model_for(data: StudentData, config: StudentConfig, *, large: str = "small-cnn") -> str:
    """Return the name of the model in `config` or, if None, of a default model for the pool.

    The default is mlp for tables, student-cnn for colour images, and small-cnn for grey images. For grey images in a
    pool of at least `LARGE` samples, it is `large`.
    """
    if config.model:
        return config.model
    if data.pool.ndim != 4:
        return "mlp"
    if data.pool.shape[1] > 1:
        return "student-cnn"
    return "small-cnn" if len(data.pool) < LARGE else large


def agreement_loss(
    logits: Tensor, ema_probabilities: Tensor, confident: float, confident_last: float, progress: float
) -> Tensor:
    """Return the mean cross-entropy of the student's logits to pseudo-labels, which an EMA of its weights predicts.

    The pseudo-label of a sample is the class with the largest probability by the EMA (as in FixMatch; Sohn et al.
    2020). If this probability is not above a threshold, the loss of the sample is 0. The mean is over all samples.

    Parameters
    ----------
    logits : (samples, classes) logits of the student
    ema_probabilities : (samples, classes) class probabilities by the EMA, for the same samples
    confident, confident_last : threshold at the start and at the end of the training
    progress : share of training steps taken, from 0 to 1
    """
    probability, label = ema_probabilities.max(1)
    sure = probability > confident + progress * (confident_last - confident)
    return (F.cross_entropy(logits, label, reduction="none") * sure).mean()


class DistributionAlignment(nn.Module):
    """Module that scales predicted class probabilities so that their mean over the pool moves towards estimated shares.

    Without alignment, a student that mistakes many 4s for 9s predicts too many 9s (Berthelot et al. 2020, *ReMixMatch*,
    section 3.1). `shares` (classes,) are the class shares, estimated from the released labels. `guessed` (classes,) is
    the moving average of the mean prediction.
    """

    shares: Tensor
    guessed: Tensor

    def __init__(self, data: StudentData) -> None:
        super().__init__()
        labels = torch.from_numpy(data.labels[data.labelled])
        self.register_buffer("shares", class_shares(torch.bincount(labels, minlength=data.classes)))
        self.register_buffer("guessed", torch.full((data.classes,), 1 / data.classes))

    @torch.no_grad()
    def forward(self, probabilities: Tensor) -> Tensor:
        """Return `probabilities` (samples, classes) of a batch, aligned to the class shares `shares`.

        First, the moving average `guessed` is updated with the mean of `probabilities`.
        """
        self.guessed.lerp_(probabilities.mean(0), 1 - _GUESS_DECAY)
        aligned = probabilities * (self.shares / self.guessed)
        return aligned / aligned.sum(1, keepdim=True)


def class_shares(counts: Tensor) -> Tensor:
    """Return the estimated share of each class (classes,); `counts` (classes,) are the numbers of released labels.

    Labels are few, so most of the difference between counts is chance. The estimate is therefore a weighted mean of the
    observed shares and equal shares. The weight of the observed shares is max(0, 1 − (k − 1)/χ²). Here, k is the number
    of classes, and χ² is Pearson's statistic of `counts` against equal shares. The expectation of χ² is k − 1 if
    classes are equally frequent. This is the positive-part estimator of James & Stein (Efron & Morris 1975, *Data
    analysis using Stein's estimator and its generalizations*). Without labels, all shares are equal.
    """
    classes, equal = len(counts), counts.sum() / len(counts)
    chi_squared = (counts - equal).square().sum() / equal
    factor = (1 - (classes - 1) / chi_squared).clamp_min(0).nan_to_num(0.0)
    return factor * counts / counts.sum().clamp_min(1) + (1 - factor) / classes


class PoolTrainer(ABC):
    """Base class of trainers that learn from the whole pool: batches, predictions by the EMA, and checkpoints.

    The EMA is a network whose weights are the moving average of the trained weights.

    Attributes
    ----------
    model : name of the model
    steps : number of steps of the whole training
    parts : all modules, optimisers and schedules that change in training, by name. The name of the EMA is "ema"
    hyperparameters : settings of the method
    scale : function that scales samples for the network
    fill : value of pixels beyond the edge of an image, which enter the image when a random view moves it
    """

    recipe = "own"
    model: str
    steps: int
    parts: dict[str, Any]
    hyperparameters: Any

    def __init__(self, data: StudentData, settings: Any, scale: Callable[[Tensor], Tensor], fill: float) -> None:
        self.hyperparameters, self.epochs, self.settings = settings, settings.epochs, asdict(settings)
        self.device = device()
        pool = torch.from_numpy(data.pool).to(self.device)
        self.scale, self.x, self.labelled = scale, scale(pool), torch.from_numpy(data.labelled)
        self.y = torch.from_numpy(data.labels[data.labelled]).to(self.device)
        self.fill, self.step = fill, 0

    def batches(self, order: Tensor) -> Iterator[Batch]:
        """Yield the batches of an epoch: the pool in `order` (samples,), with random labelled samples in each batch."""
        for chosen in order.split(self.hyperparameters.batch):  # type: ignore[no-untyped-call]
            drawn = torch.randint(len(self.labelled), (self.hyperparameters.labelled,))
            yield Batch(self.x[chosen], self.x[self.labelled[drawn]], self.y[drawn], self.step / self.steps, chosen)

    def view(self, x: Tensor, strength: str) -> Tensor:
        """Return a random view of each scaled sample of `x`; `strength` is "weak", "medium" or "strong"."""
        return random_view(x, strength, fill=self.fill)

    def logits(self, x: Tensor) -> Tensor:
        """Return the student's logits (samples, classes) for scaled samples `x`."""
        return self.parts["ema"](x)

    @torch.no_grad()
    def predict_weak_views(self, x: Tensor) -> Tensor:
        """Return the EMA's class probabilities (samples, classes) for weak views of scaled samples `x`."""
        self.parts["ema"].eval()
        with autocast(self.device):
            return self.logits(self.view(x, "weak")).float().softmax(1)

    @torch.inference_mode()
    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return class log-probabilities (samples, classes) of samples `x`.

        For images, probabilities are averaged over the image and a few weak views, which are drawn with a fixed seed.
        """
        self.parts["ema"].eval()
        batches = torch.from_numpy(x).split(_PREDICT_BATCH)  # type: ignore[no-untyped-call]
        with autocast(self.device):
            predicted = [self._average_views(self.scale(batch.to(self.device))).cpu() for batch in batches]
        return torch.cat(predicted).double().log_softmax(1).numpy()

    def _average_views(self, x: Tensor) -> Tensor:
        with seeded(0):
            views = [x, *(self.view(x, "weak") for _ in range(_VIEWS if x.ndim == 4 else 0))]
            predicted = torch.stack([self.logits(view).float().log_softmax(1) for view in views])
        return predicted.logsumexp(0) - math.log(len(views))

    def state(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.parts.items()} | {"step": self.step}

    def restore(self, state: dict[str, Any]) -> None:
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        self.step = state["step"]


class SemiSupervisedTrainer(PoolTrainer):
    """Base class of trainers of one network; a subclass defines the loss, and the EMA of the weights is the student."""

    def __init__(self, data: StudentData, model: str, settings: SemiSupervisedSettings) -> None:
        self.model = model
        self.net, standardise = untrained_network(model, data.pool, data.classes)
        super().__init__(data, settings, standardise, fill=standardise.background)
        self.ema = ema_copy(self.net)
        self.steps = settings.epochs * math.ceil(len(self.x) / settings.batch)
        self.optimiser = AdamW(
            self.net.parameters(), settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        # The warm-up needs a cycle of at least 20 steps; a shorter training stops before the end of its cycle.
        cycle = max(self.steps, 20) + 1
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimiser, settings.learning_rate, total_steps=cycle, pct_start=0.1
        )
        self.parts = {"net": self.net, "ema": self.ema, "optimiser": self.optimiser, "schedule": self.schedule}

    @abstractmethod
    def losses(self, batch: Batch) -> Mapping[str, Tensor]:
        """Return the terms of the loss of a batch, by name; training minimises their sum."""

    def epoch(self) -> dict[str, float]:
        """Train for one pass over the pool; return the mean of each term of the loss over the steps, by name."""
        self.net.train()
        terms = [self._step(batch) for batch in self.batches(torch.randperm(len(self.x)))]
        return {name: float(torch.stack([step[name] for step in terms]).mean()) for name in terms[0]}

    def _step(self, batch: Batch) -> dict[str, Tensor]:
        self.optimiser.zero_grad(set_to_none=True)
        terms = self.losses(batch)
        torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.schedule.step()
        self.step += 1
        ema_update(self.ema, self.net, self.step, self.hyperparameters.decay)
        return {name: term.detach() for name, term in terms.items()}
