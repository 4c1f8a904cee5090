"""Features that two views of a sample share and no other sample has, learnt from the pool without a label.

Contrastive learning, after SimCLR (Chen et al. 2020, *A simple framework for contrastive learning of visual
representations*) for images and SCARF (Bahri et al. 2022) for tables, whose views swap features. With a hundred
clusters of such features, 97 % of a pool of MNIST lie in one whose middle has their class; of pixels, 87 %.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.progress import Report
from patebench.models.precision import reduced
from patebench.students.supervised import untrained
from patebench.students.views import Views

WIDTH, BATCH, LEARNING_RATE, TEMPERATURE = 32, 128, 3e-3, 0.3
#: So often the pool is passed over, and so many steps are taken at least.
PASSES, STEPS = 25, 600


def features(pool: NDArray[Any], report: Report | None = None) -> NDArray[np.float64]:
    """A unit vector for each sample of `pool`: (samples, WIDTH). Draws from torch's global generator.

    `report` is called with (steps done, steps in all).
    """
    net, standardise = untrained("small-cnn" if pool.ndim == 4 else "mlp", pool, WIDTH)
    x = standardise(torch.from_numpy(pool).to(standardise.mean.device))
    _train(net, x, Views(fill=standardise.background), report)
    net.eval()
    with torch.inference_mode(), reduced(x.device):
        found = torch.cat([F.normalize(net(batch).float(), dim=1) for batch in x.split(100)])
    return found.cpu().double().numpy()


def _train(net: nn.Module, x: Tensor, views: Views, report: Report | None) -> None:
    optimiser = torch.optim.AdamW(net.parameters(), LEARNING_RATE, weight_decay=1e-2, fused=True)
    steps = max(STEPS, PASSES * len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps + 1, pct_start=0.1)
    for step in range(steps):
        batch = x[torch.randperm(len(x))[:BATCH]]
        with reduced(x.device):
            pairs = net(torch.cat([views.strong(batch), views.strong(batch)])).float()
        optimiser.zero_grad(set_to_none=True)
        contrast(pairs).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        if report:
            report(step + 1, steps)


def contrast(pairs: Tensor) -> Tensor:
    """How badly each row of `pairs` (2n, features) finds its other view, n rows on, among all rows but itself."""
    vectors = F.normalize(pairs, dim=1)
    likeness = (vectors @ vectors.T / TEMPERATURE).fill_diagonal_(-torch.inf)
    return F.cross_entropy(likeness, torch.arange(len(pairs), device=pairs.device).roll(len(pairs) // 2))
