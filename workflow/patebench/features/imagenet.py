"""Features of photographs by a network that was trained on ImageNet, for any pool of images.

The public data of these features are ImageNet's 1.3 million labelled photographs and the pool. The means of five layers
of EfficientNet-Lite0 separate the classes of CIFAR-10 better than the last layer: 81.1 % instead of 78.8 % by least
squares on 8,000 labels (2,000 test images). They are turned into unit vectors by principal axes of the pool.
"""

from typing import Any, ClassVar

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
_BATCH = 8


class ImageNetEncoder(AxesEncoder):
    """Encoder of grey or colour images by the means of a network's layers."""

    kind = "imagenet"
    #: Version of the network; blocks whose outputs are used besides the last layer, and the number of their channels.
    version: ClassVar[int] = 0
    blocks: ClassVar[tuple[int, ...]] = (5, 8, 11, 13)
    widths: ClassVar[tuple[int, ...]] = (80, 112, 192, 192)

    @classmethod
    def check(cls, shape: tuple[int, ...]) -> None:
        super().check(shape)
        if shape[0] not in (1, 3):
            raise PatebenchError(
                f"the encoder '{cls.kind}' reads images with 1 or 3 channels, not {shape[0]}", code="shape"
            )

    @classmethod
    @torch.inference_mode()
    def outputs(cls, x: NDArray[Any], report: Report | None = None) -> Tensor:
        network, processor = pretrained(cls.version), torch.device("cpu")
        done = [torch.empty(0, sum(cls.widths) + CHANNELS)]
        with autocast(processor):
            for batch in torch.from_numpy(x).split(_BATCH) if len(x) else ():  # type: ignore[no-untyped-call]
                done.append(network.means(enlarge(batch.float(), _SIDE), cls.blocks).float())
                if report:
                    report(min((len(done) - 1) * _BATCH, len(x)), len(x))
        return torch.cat(done)


class LargerImageNetEncoder(ImageNetEncoder):
    """The same by EfficientNet-Lite2, which has more blocks and channels."""

    kind = "imagenet-lite2"
    version = 2
    blocks = (7, 11, 15, 17)
    widths = (88, 120, 208, 208)
