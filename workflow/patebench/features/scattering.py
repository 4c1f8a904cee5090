"""Compute scattering features of images, which need no training and no public images.

An image is filtered by wavelets of two sizes and eight angles, and the moduli of the results are computed. The moduli
for the small wavelets are filtered again, by the large wavelets. The image and all moduli are averaged over
neighbourhoods of 4×4 pixels (Oyallon & Mallat 2015, *Deep roto-translation scattering for object classification*).
Tramèr & Boneh 2021 (*Differentially private learning needs better features*) train private models on scattering
features.

The wavelets are Morlet wavelets with the parameters of the package kymatio (Andreux et al. 2020).
"""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from patebench.core.errors import PatebenchError
from patebench.core.progress import Report, silent
from patebench.features import Encoder
from patebench.features.contrast import ContrastEncoder
from patebench.features.principal_axes import AxesEncoder

#: Number of wavelets of each size; distance between the centres of neighbourhoods, in pixels.
_ANGLES, _STEP = 8, 4
#: Minimum height and width of an image in pixels.
_SIDE = 8
#: Number of results per position: the image, both sizes of wavelets, and the second filtering of the small ones.
PATHS = 1 + 2 * _ANGLES + _ANGLES**2
#: Length of scattering features beside contrastive features of length 1, chosen with true labels of MNIST (seeds 0 to
#: 2) among 0.5, 1, 1.2, 1.5, 1.6, 1.8, 2.1, 2.5 and 4, for features that are smoothed (`graph.py`).
_WEIGHT = 1.6
#: Names of the arrays that both encoders learn.
_LEARNT = ("weights", "mean", "spread")


class ScatteringEncoder(AxesEncoder):
    """Encoder of images by principal axes of their scattering transform, computed for each channel separately."""

    kind = "scattering"

    @classmethod
    def check(cls, shape: tuple[int, ...]) -> None:
        super().check(shape)
        if min(shape[1:]) < _SIDE:
            raise PatebenchError(
                f"the encoder 'scattering' needs images of at least {_SIDE}×{_SIDE} pixels, not {shape[1]}×{shape[2]};"
                " use the encoder 'contrastive'",
                code="shape",
            )

    @classmethod
    @torch.inference_mode()
    def outputs(cls, x: NDArray[Any], report: Report = silent) -> Tensor:
        """Return the scattering transform of each image: (samples, channels · PATHS · height/4 · width/4).

        Images are transformed one by one, so the result for an image does not depend on other images.
        """
        channels, height, width = x.shape[1:]
        results = torch.empty(len(x), channels, PATHS, height // _STEP, width // _STEP)
        for number, image in enumerate(torch.from_numpy(x)):
            results[number] = scatter(image.float() / 255)
            report(number + 1, len(x))
        return results.flatten(1)


def scatter(image: Tensor) -> Tensor:
    """Return the scattering transform (channels, PATHS, height/4, width/4) of an `image` (channels, height, width).

    The second axis (PATHS) contains local averages of the following images, in this order:

    1. the image itself
    2. for each angle, the modulus of the image filtered by a small wavelet
    3. for each angle, the modulus of the image filtered by a large wavelet
    4. for each image in item 2 and each angle, the modulus of this image filtered by a large wavelet
    """
    filters = _filters(*image.shape[1:])
    padded = F.pad(image, filters.padding, mode="reflect")[:, None]
    spectrum = torch.fft.fft2(padded)
    small = torch.fft.ifft2(spectrum * filters.small).abs()
    large = torch.fft.ifft2(_subsample(spectrum * filters.large)).abs()
    both = torch.fft.ifft2(_subsample(torch.fft.fft2(small)[:, :, None] * filters.large)).abs().flatten(1, 2)
    return torch.cat(
        [_average(padded, filters.fine), _average(small, filters.fine), _average(large, filters.coarse),
         _average(both, filters.coarse)], 1,
    )  # fmt: skip


class _Filters(NamedTuple):
    """Wavelets and averaging matrices for images of one size."""

    padding: tuple[int, ...]  # reflected pixels at the left, right, top and bottom
    small: Tensor  # Fourier transforms of the wavelets (angles, height, width)
    large: Tensor
    fine: tuple[Tensor, Tensor]  # matrices that average rows and columns, in full resolution
    coarse: tuple[Tensor, Tensor]  # the same in half resolution


@cache
def _filters(height: int, width: int) -> _Filters:
    padded = [(side // _STEP + 2) * _STEP for side in (height, width)]
    extra = [(new - side) // 2 for new, side in zip(padded, (height, width), strict=True)]
    (down, right), (top, left) = padded, extra
    padding = (left, right - width - left, top, down - height - top)
    small, large = (torch.stack([_wavelet(down, right, size, k) for k in range(_ANGLES)]).float() for size in (1, 2))
    fine, coarse = ((_averaging_matrix(down, scale), _averaging_matrix(right, scale)) for scale in (1, 2))
    return _Filters(padding, small, large, fine, coarse)


def _wavelet(height: int, width: int, size: int, angle_index: int) -> Tensor:
    """Return the Fourier transform (height, width) of a Morlet wavelet.

    `size` is 1 for small wavelets and 2 for large wavelets. `angle_index` is the index of the angle, from 0 to 7.
    """
    angle = (_ANGLES // 2 - 1 - angle_index) * math.pi / _ANGLES
    wave, envelope = (_gaussian(height, width, size, angle, centre) for centre in (0.75 * math.pi / size, 0.0))
    return wave - wave[0, 0] / envelope[0, 0] * envelope


def _gaussian(height: int, width: int, size: int, angle: float, frequency: float) -> Tensor:
    """Return the Fourier transform (height, width) of a plane wave with a Gaussian envelope.

    `angle` is the wave's direction, and `frequency` is in radians per pixel. The width of the envelope is proportional
    to `size`.
    """
    # Sampling in space adds copies of the transform, shifted by multiples of 2π.
    copies = [
        2 * math.pi * (torch.fft.fftfreq(side, dtype=torch.float64)[:, None] + torch.arange(-2, 3)).mT
        for side in (height, width)
    ]
    down, right = copies[0][:, None, :, None], copies[1][None, :, None, :]
    along = down * math.cos(angle) + right * math.sin(angle) - frequency
    across = right * math.cos(angle) - down * math.sin(angle)
    # The envelope has a standard deviation of 0.8 · size pixels along the wave, and twice that across it.
    return torch.exp(-0.5 * (0.8 * size) ** 2 * (along.square() + 4 * across.square())).sum((0, 1))


def _averaging_matrix(side: int, scale: int) -> Tensor:
    """Return the matrix (side/4 − 2, side/scale) that computes Gaussian averages of a row of a padded image.

    The padded row has `side` pixels. It is first subsampled: the matrix multiplies every `scale`-th pixel of the row.
    The product contains an average around every fourth pixel of the full row, without the first and the last of these
    averages, which are in the padding.
    """
    frequency = 2 * math.pi * torch.fft.fftfreq(side // scale, scale, dtype=torch.float64)
    rows = torch.fft.fft(torch.eye(side // scale, dtype=torch.float64), dim=0)
    # The standard deviation is 1.6 pixels; frequencies that the subsampled row cannot represent are cut off.
    kept = rows * torch.exp(-0.5 * (1.6 * frequency).square())[:, None]
    # Averages are at every fourth pixel, without the first and the last, which are in the padding.
    matrix: Tensor = torch.fft.ifft(kept, dim=0).real[:: _STEP // scale][1:-1]
    return matrix.float().contiguous()


def _average(maps: Tensor, matrices: tuple[Tensor, Tensor]) -> Tensor:
    rows, columns = matrices
    return rows @ maps @ columns.mT


def _subsample(spectrum: Tensor) -> Tensor:
    """Return the Fourier transform of an image subsampled by 2 in both directions, from the image's `spectrum`."""
    top, bottom = spectrum.chunk(2, -2)
    left, right = (top + bottom).chunk(2, -1)
    return (left + right) / 4


class ContrastScatteringEncoder(Encoder):
    """Encoder that concatenates contrastive features and scattering features; scattering features weigh more.

    Scattering features separate some samples of different classes that contrastive features confuse.
    """

    kind = "contrastive-scattering"

    def __init__(self, contrastive: ContrastEncoder, scattering: ScatteringEncoder) -> None:
        self.shape, self.contrastive, self.scattering = scattering.shape, contrastive, scattering

    @classmethod
    def check(cls, shape: tuple[int, ...]) -> None:
        super().check(shape)
        ScatteringEncoder.check(shape)

    @classmethod
    def learn(cls, pool: NDArray[Any], report: Report = silent) -> Self:
        cls.check(pool.shape[1:])
        return cls(ContrastEncoder.learn(pool, report), ScatteringEncoder.learn(pool))

    def features(self, x: NDArray[Any]) -> NDArray[np.float64]:
        return _concatenate(self.contrastive.features(x), self.scattering.features(x))

    def features_alone(self, x: NDArray[Any], report: Report = silent) -> NDArray[np.float64]:
        return _concatenate(self.contrastive.features_alone(x), self.scattering.features_alone(x, report))

    def arrays(self) -> dict[str, NDArray[Any]]:
        one, other = self.contrastive.arrays(), self.scattering.arrays()
        return {name: np.concatenate([one[name], other[name]]) for name in _LEARNT} | {"shape": one["shape"]}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        shape = tuple(map(int, arrays["shape"]))
        cls.check(shape)
        untrained = ContrastEncoder.for_shape(shape).arrays()
        parts = {name: np.split(arrays[name], [len(untrained[name])]) for name in _LEARNT}
        one, other = ({name: parts[name][place] for name in _LEARNT} | {"shape": arrays["shape"]} for place in (0, 1))
        return cls(ContrastEncoder.of(one), ScatteringEncoder.of(other))


def _concatenate(contrastive: NDArray[np.float64], scattering: NDArray[np.float64]) -> NDArray[np.float64]:
    """Concatenate the `contrastive` and the `scattering` vector of each sample, weighted, to one unit vector."""
    return np.hstack([contrastive, _WEIGHT * scattering]) / math.hypot(1, _WEIGHT)
