"""Distillation (PATE 2017, Figure 5 and Appendix C.1): target probabilities, and fitting networks to them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from patebench.accounting.votes import counts
from patebench.models.network import Network

PLURALITY = "plurality"


def targets(
    votes: NDArray[np.integer], classes: int, temperatures: Sequence[float], soft: NDArray[np.floating]
) -> Iterator[tuple[tuple[str, float], NDArray[np.float64]]]:
    """Yield each kind of label, by its name and temperature: the probability of every class for every query.

    The plurality's are 0 and 1; soft ones are the sum of the teachers' probabilities at that temperature, normalised
    (Figure 5). `votes` are teachers × queries, `soft` the sums: temperatures × queries × classes.
    """
    yield (PLURALITY, 1.0), np.eye(classes)[counts(votes, classes).argmax(axis=1)]
    for temperature, total in zip(temperatures, soft.astype(np.float64), strict=True):
        yield ("soft", float(temperature)), total / total.sum(axis=1, keepdims=True)


def fit(learner: Network, x: NDArray[Any], target: NDArray[np.float64], temperature: float, *, seed: int) -> None:
    """Fit a network to the probabilities (samples × classes) of `x`, both softened by the temperature.

    As in Hinton et al. (2015), Section 2, the loss is multiplied by T², so that its gradients keep their size.
    """
    probabilities = torch.from_numpy(target).float().to(learner.device)

    def loss(logits: Tensor, positions: Tensor) -> Tensor:
        return temperature**2 * F.cross_entropy(logits / temperature, probabilities[positions])

    learner.fit(x, np.arange(len(x)), seed=seed, loss=loss)
