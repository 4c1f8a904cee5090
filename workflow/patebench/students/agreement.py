"""The loss that makes a student agree with the average of its weights, where that is confident."""

import torch.nn.functional as F
from torch import Tensor


def agreement(logits: Tensor, guess: Tensor, confident: float, confident_last: float, done: float) -> Tensor:
    """Cross-entropy of `logits` (samples, classes) to the likeliest classes of `guess`, the average's probabilities.

    Samples count where that probability is above a threshold, which falls from `confident` to `confident_last` while
    the share `done` of the training passes; the mean is over all samples.
    """
    probability, label = guess.max(1)
    sure = probability > confident + done * (confident_last - confident)
    return (F.cross_entropy(logits, label, reduction="none") * sure).mean()
