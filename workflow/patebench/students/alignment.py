"""Distribution alignment (Berthelot et al. 2020, *ReMixMatch*, section 3.1): over the pool, predictions give each class
its share. A student that takes many 4s for 9s then predicts too many 9s, and is corrected.

The shares of the classes are estimated from the released labels. Those are few, so most of the difference between
their counts is chance: the estimate shrinks the empirical shares towards equal ones, by the part of Pearson's χ² that
chance explains, on average the number of classes less one (the positive-part estimator of James & Stein, as in
Efron & Morris 1975, *Data analysis using Stein's estimator and its generalizations*).
"""

import torch
from torch import Tensor, nn

from patebench.students.interface import StudentData

#: Decay of the moving average of the predictions' mean, batch by batch.
_DECAY = 0.99


class DistributionAlignment(nn.Module):
    """Scales predicted probabilities so that their mean over the pool moves towards the shares of the classes.

    `shares` (classes,) are the estimated shares, `guessed` (classes,) the moving average of the mean prediction.
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
        """The aligned `probabilities` (samples, classes) of a batch, which also updates the moving average."""
        self.guessed.lerp_(probabilities.mean(0), 1 - _DECAY)
        aligned = probabilities * (self.shares / self.guessed)
        return aligned / aligned.sum(1, keepdim=True)


def class_shares(counts: Tensor) -> Tensor:
    """The estimated share (classes,) of each class, all above 0 and 1 together, from its number of labels `counts`.

    Without a label, all shares are equal.
    """
    classes, equal = len(counts), counts.sum() / len(counts)
    chi_squared = (counts - equal).square().sum() / equal
    kept = (1 - (classes - 1) / chi_squared).clamp_min(0).nan_to_num(0.0)
    return kept * counts / counts.sum().clamp_min(1) + (1 - kept) / classes
