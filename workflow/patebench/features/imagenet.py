"""Features of photographs by a network that was trained on ImageNet, for any pool of images.

The public data of these features are ImageNet's 1.3 million labelled photographs and the pool. The means of five layers
of EfficientNet-Lite0 separate the classes of CIFAR-10 better than the last layer: 81.1 % instead of 78.8 % by least
squares on 8,000 labels (2,000 test images). They are turned into unit vectors by principal axes of the pool.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patebench.core.errors import PatebenchError
from patebench.core.progress import Report
from patebench.features import Encoder, check_input
from patebench.features.principal_axes import PrincipalAxes
from patebench.models.device import autocast
from patebench.models.efficientnet_lite import CHANNELS, enlarge, pretrained

#: Width and height to which images are enlarged, in pixels.
_SIDE = 160
#: Blocks whose outputs are used, besides the last layer, and the number of their channels.
_BLOCKS, _WIDTHS = (5, 8, 11, 13), (80, 112, 192, 192)
#: Number of means over the outputs of layers.
_MEANS = sum(_WIDTHS) + CHANNELS
_BATCH = 8


class ImageNetEncoder(Encoder):
    """Encoder of grey or colour images by the layers of a network; only principal axes are learnt from the pool."""

    def __init__(self, shape: tuple[int, ...], axes: PrincipalAxes) -> None:
        self.shape, self.axes = shape, axes

    @classmethod
    def learn(cls, pool: NDArray[Any], report: Report | None = None) -> Self:
        shape = _check_shape(tuple(pool.shape[1:]))
        return cls(shape, PrincipalAxes.learn(_means(pool, report).double()))

    def features(self, x: NDArray[Any]) -> NDArray[np.float64]:
        self.check_shape(x)
        return self.axes.units(_means(x))

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "weights": self.axes.axes.reshape(-1).numpy(),
            **self.axes.scaling(),
            "shape": np.array(self.shape, dtype=np.int64),
        }

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        shape = _check_shape(tuple(int(size) for size in arrays["shape"]))
        weights, mean, spread = (torch.from_numpy(arrays[name]) for name in ("weights", "mean", "spread"))
        if len(mean) != _MEANS or len(weights) % _MEANS:
            raise PatebenchError("its arrays are not those of an ImageNet encoder")
        return cls(shape, PrincipalAxes(mean, spread, weights.reshape(_MEANS, -1)))


def _check_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    check_input("imagenet", shape)
    if shape[0] not in (1, 3):
        raise PatebenchError(f"the encoder 'imagenet' reads images with 1 or 3 channels, not {shape[0]}", code="shape")
    return shape


@torch.inference_mode()
def _means(x: NDArray[Any], report: Report | None = None) -> Tensor:
    """Return the means of the layers (samples, means) for images (samples, channels, height, width)."""
    network, processor, done = pretrained(), torch.device("cpu"), [torch.empty(0, _MEANS)]
    with autocast(processor):
        for batch in torch.from_numpy(x).split(_BATCH):  # type: ignore[no-untyped-call]
            done.append(network.means(enlarge(batch.float(), _SIDE), _BLOCKS).float())
            if report:
                report(min((len(done) - 1) * _BATCH, len(x)), len(x))
    return torch.cat(done)
