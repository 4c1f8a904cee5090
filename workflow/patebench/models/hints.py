"""What a hidden layer of a network says of samples, for hint learning (FitNets: Romero et al. 2015)."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from patebench.core.errors import PatebenchError

#: A layer's maps are averaged over a grid of so many cells on each side: what is kept of every sample stays small.
GRID = 2


class WithHints(nn.Module):
    """A network that gives the hints of one of its layers beside its logits; it shares the network's weights."""

    def __init__(self, net: nn.Module, layer: str) -> None:
        super().__init__()
        check_layer(net, layer)
        assert isinstance(net, nn.Sequential)
        self.net, self.layer = net, layer

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (samples, classes) and hints (samples, channels, `GRID`, `GRID`) of samples `x`."""
        hints: Any = None
        for name, part in self.net.named_children():
            x = part(x)
            if name == self.layer:
                hints = F.adaptive_avg_pool2d(x, GRID)
        return x, hints

    def hints(self, x: Tensor) -> Tensor:
        """The hints alone, without what follows their layer."""
        for name, part in self.net.named_children():
            x = part(x)
            if name == self.layer:
                break
        return F.adaptive_avg_pool2d(x, GRID)


def blocks(net: nn.Module) -> list[str]:
    """The layers of a network that can give hints: what it calls block1, block2, …"""
    names = [name for name, _ in net.named_children()] if isinstance(net, nn.Sequential) else []
    return [name for name in names if name.startswith("block")]


def check_layer(net: nn.Module, layer: str) -> None:
    """Raise PatebenchError unless a network can give hints of this layer."""
    if layer not in (found := blocks(net)):
        words = f"it names {', '.join(found)}" if found else "it names no blocks; conv-small and conv-middle do"
        raise PatebenchError(f"this network has no layer '{layer}' for hints: {words}")
