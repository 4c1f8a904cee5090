"""Features that two views of a sample share and no other sample has, learnt from the pool without a label.

Contrastive learning, after SimCLR (Chen et al. 2020, *A simple framework for contrastive learning of visual
representations*) for images and SCARF (Bahri et al. 2022) for tables, whose views swap features. With a hundred
clusters of such features, 97 % of a pool of MNIST are in a cluster whose central sample has their class; with clusters
of pixels, 87 %.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.progress import Report
from patebench.models.precision import autocast
from patebench.students.supervised import untrained_network
from patebench.students.views import Views

WIDTH, BATCH, LEARNING_RATE, TEMPERATURE = 32, 128, 3e-3, 0.3
#: The number of passes over the pool, and the least number of steps.
PASSES, STEPS = 25, 600


def features(pool: NDArray[Any], report: Report | None = None) -> NDArray[np.float64]:
    """A unit vector for each sample of `pool` (samples, …): (samples, WIDTH).

    Draws from torch's global generator. `report` is called with (steps done, steps in all).
    """
    net, standardise = untrained_network("small-cnn" if pool.ndim == 4 else "mlp", pool, WIDTH)
    x = standardise(torch.from_numpy(pool).to(standardise.mean.device))
    _train(net, x, Views(fill=standardise.background), report)
    net.eval()
    with torch.inference_mode(), autocast(x.device):
        found = torch.cat([F.normalize(net(batch).float(), dim=1) for batch in x.split(100)])
    return found.cpu().double().numpy()


def _train(net: nn.Module, x: Tensor, views: Views, report: Report | None) -> None:
    optimiser = torch.optim.AdamW(net.parameters(), LEARNING_RATE, weight_decay=1e-2, fused=True)
    steps = max(STEPS, PASSES * len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps + 1, pct_start=0.1)
    for step in range(steps):
        batch = x[torch.randperm(len(x))[:BATCH]]
        with autocast(x.device):
            pairs = net(torch.cat([views.strong(batch), views.strong(batch)])).float()
        optimiser.zero_grad(set_to_none=True)
        nt_xent(pairs).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        if report:
            report(step + 1, steps)


def nt_xent(pairs: Tensor) -> Tensor:
    """SimCLR's loss: cross-entropy of finding the other view of each sample among all rows of `pairs` (2n, features).

    Rows i and n + i are the two views of sample i; similarity is the cosine divided by `TEMPERATURE`.
    """
    vectors = F.normalize(pairs, dim=1)
    similarity = (vectors @ vectors.T / TEMPERATURE).fill_diagonal_(-torch.inf)
    return F.cross_entropy(similarity, torch.arange(len(pairs), device=pairs.device).roll(len(pairs) // 2))
