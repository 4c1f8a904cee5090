"""The loss by which a student learns the confident predictions of its EMA (pseudo-labels, as in FixMatch)."""

import torch.nn.functional as F
from torch import Tensor


def agreement_loss(
    logits: Tensor, ema_probabilities: Tensor, confident: float, confident_last: float, done: float
) -> Tensor:
    """Cross-entropy of `logits` (samples, classes) to the likeliest class of `ema_probabilities` (samples, classes).

    Samples count where the probability of that class is above a threshold, which falls from `confident` to
    `confident_last` as `done`, the share of the training steps taken, rises from 0 to 1. The mean is over all samples.
    """
    probability, label = ema_probabilities.max(1)
    sure = probability > confident + done * (confident_last - confident)
    return (F.cross_entropy(logits, label, reduction="none") * sure).mean()
