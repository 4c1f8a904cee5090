"""Siamese networks (PATE 2017, Appendix C.2, first attempt; Bromley et al. 1993, Koch 2015): a learned metric.

Two networks with shared weights are trained to tell whether two images are equal. An image that is confidently matched
with a labelled one need not be asked for; the others are.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.models.augment import random_affine
from patebench.models.network import Standardise
from patebench.models.recipes import MODERN
from patebench.models.small_cnn import build
from patebench.students.strategies.situation import Situation

FEATURES, BATCH, STEPS, LEARNING_RATE = 32, 64, 300, 1e-3


class Siamese(nn.Module):
    """The logit that two images are equal: a weighted L1 distance of their features, as Koch (2015) has it."""

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.standardise = Standardise(x)
        self.features = build(tuple(x.shape[1:]), FEATURES)
        self.weights = nn.Parameter(torch.zeros(FEATURES))
        self.bias = nn.Parameter(torch.ones(()))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """For features (…, FEATURES) of two images each."""
        logit: Tensor = self.bias - (first - second).abs() @ F.softplus(self.weights)
        return logit


def choose(situation: Situation, queries: int, seed: int) -> NDArray[np.intp]:
    """Image after image, the one whose best match among those labelled or chosen before is the worst."""
    pool = situation.lesson.pool
    if pool.ndim != 4:
        raise PatebenchError("siamese compares images, and these samples are no images; use least-confident")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = train(torch.from_numpy(pool), seed)
    return farthest(network, features(network, pool), situation.lesson.answered, situation.unasked, queries)


def train(pool: Tensor, seed: int) -> Siamese:
    """A pair of networks that calls two random views of one image equal and views of two images different."""
    network, rng = Siamese(pool), torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(network.parameters(), LEARNING_RATE)
    blank = network.standardise.background
    target = torch.tensor([1.0, 0.0]).repeat_interleave(min(BATCH, len(pool)))
    for _ in range(STEPS):
        images = network.standardise(pool[torch.randperm(len(pool), generator=rng)[:BATCH]])
        one, other = (network.features(random_affine(images, MODERN, rng, fill=blank)) for _ in range(2))
        logits = torch.cat([network(one, other), network(one, other.roll(1, 0))])
        optimiser.zero_grad(set_to_none=True)
        F.binary_cross_entropy_with_logits(logits, target).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return network.eval()


@torch.inference_mode()
def features(network: Siamese, pool: NDArray[Any]) -> Tensor:
    """The features of every image, samples × FEATURES."""
    batches = torch.from_numpy(pool).split(100)  # type: ignore[no-untyped-call]
    return torch.cat([network.features(network.standardise(batch)) for batch in batches])


@torch.inference_mode()
def farthest(
    network: Siamese, features: Tensor, known: NDArray[np.integer], candidates: NDArray[np.intp], queries: int
) -> NDArray[np.intp]:
    """The positions of `queries` candidates, each matched worst with the known images and those before it."""
    among = features[candidates]
    best = torch.full((len(candidates),), -torch.inf)
    for position in known:
        best = torch.maximum(best, network(among, features[position]))
    chosen: list[int] = []
    for _ in range(min(queries, len(candidates))):
        chosen.append(int(best.argmin()))
        best = torch.maximum(best, network(among, among[chosen[-1]]))
        best[chosen[-1]] = torch.inf
    return candidates[chosen]
