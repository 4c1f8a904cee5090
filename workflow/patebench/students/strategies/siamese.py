"""Siamese networks (PATE 2017, Appendix C.2, first attempt; Bromley et al. 1993, Koch 2015): a learned metric.

Two networks with shared weights are trained to tell whether two images are equal. An image that is confidently matched
with a labelled one need not be queried; the others are.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.models.augment import random_affine
from patebench.models.device import device
from patebench.models.network import Standardise, seeded
from patebench.models.optimisers import AdamW
from patebench.models.recipes import MODERN
from patebench.models.small_cnn import build
from patebench.students.strategies.acquisition_state import AcquisitionState

FEATURES, BATCH, STEPS, LEARNING_RATE = 32, 64, 300, 1e-3


class Siamese(nn.Module):
    """The logit that two images are equal: a weighted L1 distance of their features, after Koch (2015).

    `x` are images (samples, channels, height, width), by which images are standardised.
    """

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.standardise = Standardise(x)
        self.features = build(tuple(x.shape[1:]), FEATURES)
        self.weights = nn.Parameter(torch.zeros(FEATURES))
        self.bias = nn.Parameter(torch.ones(()))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """The logits (…,) that pairs of images are equal, from their features (…, FEATURES)."""
        logit: Tensor = self.bias - (first - second).abs() @ F.softplus(self.weights)
        return logit


def acquire(state: AcquisitionState, queries: int, seed: int) -> NDArray[np.intp]:
    """One after another, the image whose best match among the labelled and the already chosen images is the worst.

    Raises PatebenchError if the samples are no images.
    """
    pool = state.data.pool
    if pool.ndim != 4:
        raise PatebenchError("siamese compares images, and these samples are no images; use least-confident")
    with seeded(seed):
        network = train(torch.from_numpy(pool), seed)
    return farthest(network, features(network, pool), state.data.labelled, state.unqueried, queries)


def train(pool: Tensor, seed: int) -> Siamese:
    """A network for which two random views of one image of `pool` are equal, and views of two images are not.

    It is on the device of `models.device`. Its initial weights come from torch's global generator, all other draws from
    `seed`.
    """
    network, rng = Siamese(pool).to(device()), torch.Generator().manual_seed(seed)
    optimiser = AdamW(network.parameters(), LEARNING_RATE)
    fill = network.standardise.background
    target = torch.tensor([1.0, 0.0]).repeat_interleave(min(BATCH, len(pool))).to(device())
    for _ in range(STEPS):
        batch = pool[torch.randperm(len(pool), generator=rng)[:BATCH]]
        images = network.standardise(batch.to(device()))
        first, second = (network.features(random_affine(images, MODERN, rng, fill=fill)) for _ in range(2))
        logits = torch.cat([network(first, second), network(first, second.roll(1, 0))])
        optimiser.zero_grad(set_to_none=True)
        F.binary_cross_entropy_with_logits(logits, target).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return network.eval()


@torch.inference_mode()
def features(network: Siamese, pool: NDArray[Any]) -> Tensor:
    """The features (samples, FEATURES) of the images of `pool`, on the network's device."""
    batches = torch.from_numpy(pool).split(100)  # type: ignore[no-untyped-call]
    return torch.cat([network.features(network.standardise(batch.to(device()))) for batch in batches])


@torch.inference_mode()
def farthest(
    network: Siamese, features: Tensor, labelled: NDArray[np.integer], candidates: NDArray[np.intp], queries: int
) -> NDArray[np.intp]:
    """The positions of `queries` of the `candidates`, greedily: each has the worst best match with the images before.

    The images before are the `labelled` ones and the candidates already chosen.
    """
    among = features[candidates]
    best = torch.full((len(candidates),), -torch.inf, device=features.device)
    for position in labelled:
        best = torch.maximum(best, network(among, features[position]))
    chosen: list[int] = []
    for _ in range(min(queries, len(candidates))):
        chosen.append(int(best.argmin()))
        best = torch.maximum(best, network(among, among[chosen[-1]]))
        best[chosen[-1]] = torch.inf
    return candidates[chosen]
