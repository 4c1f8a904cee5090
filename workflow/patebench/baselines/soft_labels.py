"""Distillation (PATE 2017, Figure 5 and Appendix C.1): fit networks to probabilities derived from the teachers."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from patebench.accounting.votes import counts
from patebench.models.network import Network


def targets(
    votes: NDArray[np.integer], classes: int, temperatures: Sequence[float], probability_sums: NDArray[np.floating]
) -> Iterator[tuple[tuple[str, float], NDArray[np.float64]]]:
    """Yield the targets on which networks are trained: ((kind, temperature), probabilities (queries, classes)).

    First comes the kind "plurality" at temperature 1: probability 1 for the class with the most `votes` (teachers,
    queries). Then comes the kind "soft" at each of `temperatures`: the mean of the teachers' class probabilities at
    this temperature (Papernot et al. 2017, Figure 5). `probability_sums` (temperatures, queries, classes) are the sums
    of these probabilities over the teachers.
    """
    yield ("plurality", 1.0), np.eye(classes)[counts(votes, classes).argmax(axis=1)]
    for temperature, total in zip(temperatures, probability_sums.astype(np.float64), strict=True):
        yield ("soft", float(temperature)), total / total.sum(axis=1, keepdims=True)


def fit(learner: Network, x: NDArray[Any], target: NDArray[np.float64], temperature: float, *, seed: int) -> None:
    """Train the network `learner` on samples `x` with the target probabilities `target` (samples, classes).

    The network's logits are divided by `temperature`. As in Hinton et al. (2015), Section 2, the loss is multiplied by
    the squared temperature, so that gradients have the same size at all temperatures.
    """
    probabilities = torch.from_numpy(target).float().to(learner.device)

    def loss(logits: Tensor, positions: Tensor) -> Tensor:
        return temperature**2 * F.cross_entropy(logits / temperature, probabilities[positions])

    learner.fit(x, np.arange(len(x)), seed=seed, loss=loss)
