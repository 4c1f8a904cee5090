"""Learn features of the pool without labels, such that changed copies of the same sample have similar features.

The methods are SimCLR (Chen et al. 2020, *A simple framework for contrastive learning of visual representations*) for
images and SCARF (Bahri et al. 2022) for tables. SCARF changes a sample by taking some features from other samples.

On a pool of MNIST divided into a hundred clusters, 97 % of the samples have the class of the central sample of their
cluster. With clusters of pixels, the share is 87 %.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.core.progress import Report, silent
from patebench.features import Encoder
from patebench.models.architectures import untrained_network
from patebench.models.augment import random_view
from patebench.models.device import autocast
from patebench.models.optimisers import AdamW
from patebench.models.scaling import Standardise

WIDTH, BATCH, LEARNING_RATE, TEMPERATURE = 32, 128, 3e-3, 0.3
#: Number of passes over the pool, and the minimum number of steps.
PASSES, STEPS = 25, 600


class ContrastEncoder(Encoder):
    """Encoder by a network trained with a contrastive loss; features are unit vectors (samples, WIDTH)."""

    kind = "contrastive"

    def __init__(self, net: nn.Module, standardise: Standardise, shape: tuple[int, ...]) -> None:
        self.net, self.standardise, self.shape = net, standardise, shape

    @classmethod
    def untrained(cls, pool: NDArray[Any]) -> Self:
        """Return an untrained encoder for samples like those of `pool`; torch's global generator draws the weights."""
        net, standardise = untrained_network("small-cnn" if pool.ndim == 4 else "mlp", pool, WIDTH)
        return cls(net, standardise, pool.shape[1:])

    @classmethod
    def learn(cls, pool: NDArray[Any], report: Report = silent) -> Self:
        encoder = cls.untrained(pool)
        x = encoder.standardise(torch.from_numpy(pool).to(encoder.standardise.mean.device))
        _train(encoder.net, x, encoder.standardise.background, report)
        return encoder

    def features(self, x: NDArray[Any]) -> NDArray[np.float64]:
        self.check_shape(x)
        self.net.eval()
        device = self.standardise.mean.device
        with torch.inference_mode(), autocast(device):
            batches = torch.split(torch.from_numpy(x), 100)
            parts = [F.normalize(self.net(self.standardise(part.to(device))).float(), dim=1).cpu() for part in batches]
        return torch.cat(parts).double().numpy()

    def features_alone(self, x: NDArray[Any], report: Report = silent) -> NDArray[np.float64]:
        for part in (self.net, self.standardise):
            part.cpu()
        return super().features_alone(x, report)

    def arrays(self) -> dict[str, NDArray[Any]]:
        flat = {name: torch.cat([part.detach().reshape(-1) for part in tensors]) for name, tensors in self._tensors()}
        shape = np.array(self.shape, dtype=np.int64)
        return {name: values.cpu().numpy() for name, values in flat.items()} | {"shape": shape}

    @classmethod
    def for_shape(cls, shape: tuple[int, ...]) -> Self:
        """Return an untrained encoder for samples of `shape`; the state of torch's global generator stays unchanged."""
        kind = np.uint8 if len(shape) == 3 else np.float32
        with torch.random.fork_rng(devices=[]):
            return cls.untrained(np.zeros((1, *shape), kind))

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        shape = tuple(map(int, arrays["shape"]))
        encoder = cls.for_shape(shape)
        for name, tensors in encoder._tensors():
            sizes, flat = [part.numel() for part in tensors], torch.from_numpy(arrays[name])
            if len(flat) != sum(sizes):
                raise PatebenchError(
                    f"its array '{name}' has {len(flat)} values, but a contrastive encoder for samples of shape {shape}"
                    f" has {sum(sizes)}, so it is damaged or another encoder made it"
                )
            for tensor, values in zip(tensors, torch.split(flat, sizes), strict=True):
                tensor.data.copy_(values.reshape(tensor.shape))
        return encoder

    def _tensors(self) -> list[tuple[str, list[Tensor]]]:
        """Return, for each learnt array in the encoder's file, its name and its tensors.

        The array contains these tensors one after the other, flattened.
        """
        standardise = self.standardise
        return [
            ("weights", list(self.net.parameters())), ("mean", [standardise.mean]), ("spread", [standardise.spread]),
        ]  # fmt: skip


def _train(net: nn.Module, x: Tensor, fill: float, report: Report) -> None:
    optimiser = AdamW(net.parameters(), LEARNING_RATE, weight_decay=1e-2, fused=True)
    steps = max(STEPS, PASSES * len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps + 1, pct_start=0.1)
    for step in range(steps):
        batch = x[torch.randperm(len(x))[:BATCH]]
        with autocast(x.device):
            pairs = net(torch.cat([random_view(batch, "strong", fill=fill) for _ in range(2)])).float()
        optimiser.zero_grad(set_to_none=True)
        nt_xent(pairs).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        report(step + 1, steps)


def nt_xent(pairs: Tensor) -> Tensor:
    """Return SimCLR's loss NT-Xent: the mean cross-entropy of finding, for each row, the other view of the same sample.

    Rows i and n + i of `pairs` (2n, features) are the two views of sample i. The candidates for a row are all other
    rows; their logits are cosines divided by `TEMPERATURE`.
    """
    vectors = F.normalize(pairs, dim=1)
    similarity = (vectors @ vectors.T / TEMPERATURE).fill_diagonal_(-torch.inf)
    return F.cross_entropy(similarity, torch.arange(len(pairs), device=pairs.device).roll(len(pairs) // 2))
