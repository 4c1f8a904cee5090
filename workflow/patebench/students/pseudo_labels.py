"""Methods against wrong labels: agreement with confident predictions, alignment of classes, label cleaning."""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patebench.students.interface import Student, StudentData


def agreement_loss(
    logits: Tensor, ema_probabilities: Tensor, confident: float, confident_last: float, done: float
) -> Tensor:
    """Return the cross-entropy of `logits` (samples, classes) to the likeliest class of `ema_probabilities`.

    Both arguments have the same shape. The student thus learns the confident predictions of its EMA (pseudo-labels, as
    in FixMatch; Sohn et al. 2020). A sample counts if the probability of that class is above a threshold, which falls
    from `confident` to `confident_last` as `done`, the share of the training steps taken, rises from 0 to 1. The mean
    is over all samples.
    """
    probability, label = ema_probabilities.max(1)
    sure = probability > confident + done * (confident_last - confident)
    return (F.cross_entropy(logits, label, reduction="none") * sure).mean()


#: Decay of the moving average of the predictions' mean, batch by batch.
_DECAY = 0.99


class DistributionAlignment(nn.Module):
    """Module that scales predicted probabilities so that their mean over the pool moves towards the class shares.

    Without alignment, a student that mistakes many 4s for 9s predicts too many 9s (Berthelot et al. 2020, *ReMixMatch*,
    section 3.1). `shares` (classes,) are the estimated shares, `guessed` (classes,) the moving average of the mean
    prediction.
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
        """Align the `probabilities` (samples, classes) of a batch, and update the moving average."""
        self.guessed.lerp_(probabilities.mean(0), 1 - _DECAY)
        aligned = probabilities * (self.shares / self.guessed)
        return aligned / aligned.sum(1, keepdim=True)


def class_shares(counts: Tensor) -> Tensor:
    """Return the estimated share (classes,) of each class, all above 0, from its number of released labels `counts`.

    Labels are few, so most of the difference between counts is chance. The estimate shrinks the empirical shares
    towards equal ones by the part of Pearson's χ² that chance explains, on average the number of classes minus one (the
    positive-part estimator of James & Stein, as in Efron & Morris 1975, *Data analysis using Stein's estimator and its
    generalizations*). Without a label, all shares are equal.
    """
    classes, equal = len(counts), counts.sum() / len(counts)
    chi_squared = (counts - equal).square().sum() / equal
    factor = (1 - (classes - 1) / chi_squared).clamp_min(0).nan_to_num(0.0)
    return factor * counts / counts.sum().clamp_min(1) + (1 - factor) / classes


_FOLDS = 4
#: Probability below which `cleaned` removes a label.
_IMPROBABLE = 0.1
#: Largest share of labels that `cleaned` removes; with more, the judging students have learnt too little.
_MOST = 0.25
#: Smallest share of labels that `cleaned` removes. Fewer improbable labels belong to rare samples rather than being
#: wrong. A few wrong labels do little harm, and a rare kind of sample may have only one label.
_LEAST = 0.05


def cleaned(data: StudentData, train: Callable[[StudentData], Student]) -> StudentData:
    """Return `data` without the labels that students trained on other labels find improbable.

    Noise makes some labels wrong. Labels are divided into folds, and `train` trains a student without the labels of
    each fold, which judges them (cross-fitting after Northcutt et al. 2021, *Confident learning*). A wrong label on
    which most teachers agree is not improbable, and is kept. All labels of classes with fewer labels than folds are
    kept. Folds are stratified by class and drawn from torch's global generator.
    """
    labelled, labels = data.labelled, data.labels[data.labelled]
    shuffled = torch.randperm(len(labelled)).numpy()
    fold = np.empty(len(labelled), int)
    fold[shuffled[np.argsort(labels[shuffled], kind="stable")]] = np.arange(len(labelled)) % _FOLDS
    probability = np.ones(len(labelled))
    for held_out in (np.flatnonzero(fold == number) for number in range(_FOLDS)):
        if 0 < len(held_out) < len(labelled):
            judge = train(data.without(labelled[held_out]))
            log_p = judge.log_probabilities(data.pool[labelled[held_out]])
            probability[held_out] = np.exp(log_p[np.arange(len(held_out)), labels[held_out]])
    improbable = (probability < _IMPROBABLE) & (np.bincount(labels)[labels] >= _FOLDS)
    return data.without(labelled[improbable]) if _LEAST <= improbable.mean() <= _MOST else data
