"""Features of photographs by a network that was trained on ImageNet, for any pool of images.

The public data of these features are ImageNet's 1.3 million labelled photographs and the pool. The means of five layers
of EfficientNet-Lite0 separate the classes of CIFAR-10 better than the last layer: 81.1 % instead of 78.8 % by least
squares on 8,000 labels (2,000 test images). They are turned into unit vectors by principal axes of the pool.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from patebench.core.errors import PatebenchError
from patebench.core.progress import Report
from patebench.features.principal_axes import AxesEncoder
from patebench.models.device import autocast
from patebench.models.efficientnet_lite import CHANNELS, enlarge, pretrained

#: Width and height to which images are enlarged, in pixels.
_SIDE = 160
#: Blocks whose outputs are used, besides the last layer, and the number of their channels.
_BLOCKS, _WIDTHS = (5, 8, 11, 13), (80, 112, 192, 192)
#: Number of means over the outputs of layers.
_MEANS = sum(_WIDTHS) + CHANNELS
_BATCH = 8


class ImageNetEncoder(AxesEncoder):
    """Encoder of grey or colour images by the means of a network's layers."""

    kind = "imagenet"

    @classmethod
    def check(cls, shape: tuple[int, ...]) -> None:
        super().check(shape)
        if shape[0] not in (1, 3):
            raise PatebenchError(
                f"the encoder 'imagenet' reads images with 1 or 3 channels, not {shape[0]}", code="shape"
            )

    @classmethod
    @torch.inference_mode()
    def outputs(cls, x: NDArray[Any], report: Report | None = None) -> Tensor:
        network, processor, done = pretrained(), torch.device("cpu"), [torch.empty(0, _MEANS)]
        with autocast(processor):
            for batch in torch.from_numpy(x).split(_BATCH) if len(x) else ():  # type: ignore[no-untyped-call]
                done.append(network.means(enlarge(batch.float(), _SIDE), _BLOCKS).float())
                if report:
                    report(min((len(done) - 1) * _BATCH, len(x)), len(x))
        return torch.cat(done)
