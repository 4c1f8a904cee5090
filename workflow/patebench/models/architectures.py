"""Architectures of all networks.

Each builder returns an untrained network for samples of `shape`, which is (channels, height, width) for images, with
one output per class. A registered model combines a builder with the shared training loop (`network.Network`).
"""

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.models import Learner, check_compressible, image_shape, make_learner
from patebench.models.network import Network
from patebench.models.scaling import Standardise

#: Hidden units of the perceptron's two layers.
_HIDDEN = 128
#: Minimum side, in pixels, of images for which tanh-cnn has the filters of its paper.
_SHORTEST_SIDE = 20
#: Widths w of Conv-Small and Conv-Middle.
SMALL, MIDDLE = 32, 96


def _with_head(
    layers: Iterable[nn.Module], shape: tuple[int, ...], *widths: int, activation: type[nn.Module] = nn.ReLU
) -> nn.Module:
    """Return a network of `layers`, followed by linear layers whose numbers of outputs are `widths`.

    Between two linear layers, there is an `activation`. The last width is the number of classes. `shape` is the shape
    of an image.
    """
    features = nn.Sequential(*layers, nn.Flatten())
    with torch.no_grad():
        inputs = features(torch.zeros(1, *shape)).numel()
    head = [nn.Linear(*sizes) for sizes in pairwise([inputs, *widths])]
    return nn.Sequential(features, head[0], *(layer for linear in head[1:] for layer in (activation(), linear)))


def mlp(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build a perceptron with two hidden layers of 128 units, for samples of any `shape`."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(math.prod(shape), _HIDDEN), nn.ReLU(),
        nn.Linear(_HIDDEN, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, classes),
    )  # fmt: skip


def small_cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build a CNN for teachers with about 240 images: 5×5 convolutions of 16 and 32 channels, and 64 hidden units."""
    channels, _, _ = image_shape("small-cnn", shape)
    # Pooling and ReLU commute; after pooling, ReLU processes a quarter of the values.
    layers = [
        nn.Conv2d(channels, 16, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(16, 32, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
    ]  # fmt: skip
    return _with_head(layers, shape, 64, classes)


def student_cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build a CNN for students, which have more samples than teachers: three 3×3 convolutions and 128 hidden units."""
    layers: list[nn.Module] = []
    width, _, _ = image_shape("student-cnn", shape)
    for channels in (32, 64, 128):
        layers += [nn.Conv2d(width, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)]
        width = channels
    return _with_head(layers, shape, 128, classes)


def tanh_cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build a small CNN with tanh activations, with which DP-SGD reaches a higher accuracy than with ReLU.

    This is the architecture for MNIST of Papernot, Thakurta, Song, Chien, Erlingsson 2021, *Tempered sigmoid
    activations for deep learning with differential privacy*. It has 26,010 weights and no layer that mixes samples.
    Images with a side below 20 pixels get smaller filters.
    """
    channels, height, width = image_shape("tanh-cnn", shape)
    if min(height, width) >= _SHORTEST_SIDE:
        layers = [
            nn.Conv2d(channels, 16, 8, stride=2, padding=2), nn.Tanh(), nn.MaxPool2d(2, 1),
            nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, 1),
        ]  # fmt: skip
    else:
        layers = [
            nn.Conv2d(channels, 16, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2),
        ]  # fmt: skip
    return _with_head(layers, shape, 32, classes, activation=nn.Tanh)


def paper_cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build the CNN of PATE 2017's official code (research/pate_2017), which follows TensorFlow's deep CNN tutorial."""
    channels, _, _ = image_shape("paper-cnn", shape)
    layers = [
        nn.Conv2d(channels, 64, 5, padding=2), _paper_pool(), nn.ReLU(), ChannelNormalise(64),
        nn.Conv2d(64, 128, 5, padding=2), nn.ReLU(), ChannelNormalise(128), _paper_pool(),
    ]  # fmt: skip
    return _with_head(layers, shape, 384, 192, classes)


def paper_cnn_deep(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build the CNN of PATE 2017 for SVHN: `paper_cnn` with one more convolution before each pooling.

    The paper says only "we add two hidden layers" (Section 4).
    """
    channels, _, _ = image_shape("paper-cnn-deep", shape)
    layers = [
        nn.Conv2d(channels, 64, 5, padding=2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), _paper_pool(), ChannelNormalise(64),
        nn.Conv2d(64, 128, 5, padding=2), nn.ReLU(),
        nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(), ChannelNormalise(128), _paper_pool(),
    ]  # fmt: skip
    return _with_head(layers, shape, 384, 192, classes)


def _paper_pool() -> nn.Module:
    return nn.MaxPool2d(3, stride=2, padding=1)


class ChannelNormalise(nn.Module):
    """Local response normalisation over 9 channels: TensorFlow's `lrn(4, bias=1, alpha=0.001/9, beta=0.75)`.

    It equals `nn.LocalResponseNorm(9, alpha=1e-3, beta=0.75, k=1)` but is several times faster on a CPU. The sum over
    neighbouring channels is computed as a 1×1 convolution with a band matrix, and the power −3/4 by square roots.
    """

    band: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        near = torch.arange(channels)
        band = ((near[:, None] - near).abs() <= 4).float() * (1e-3 / 9)
        self.register_buffer("band", band[:, :, None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        scale = 1.0 + F.conv2d(x * x, self.band)
        return x * scale.rsqrt() * scale.sqrt().rsqrt()


def conv_net(shape: tuple[int, ...], classes: int, *, width: int) -> nn.Sequential:
    """Build Conv-Small or Conv-Middle (Laine & Aila 2017; Park et al. 2017): nine convolutions in three named blocks.

    The numbers of channels, for `width` w, are w, w, w | pool | 2w, 2w, 2w | pool | 2w, 2w, 2w | mean | linear, as in
    Laine & Aila's Table 5. The last two convolutions are 1×1. Conv-Small has w = 32 and, for one colour channel, 157.1K
    parameters, as stated in PET-DL 2019. Conv-Middle has w = 96 and, for three colour channels, 1.41M parameters;
    PET-DL 2019 states 1.43M.
    """
    channels, *size = image_shape("conv-middle" if width == MIDDLE else "conv-small", shape)
    # Small images need padding in the last block; otherwise no pixels remain.
    last = 0 if min(size) >= 12 else 1
    wide = 2 * width
    return nn.Sequential(
        OrderedDict(
            block1=nn.Sequential(*_convolutions(channels, width, (3, 3, 3))),
            block2=nn.Sequential(nn.MaxPool2d(2), *_convolutions(width, wide, (3, 3, 3))),
            block3=nn.Sequential(nn.MaxPool2d(2), *_convolutions(wide, wide, (3, 1, 1), padding=last)),
            pool=nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
            classify=nn.Linear(wide, classes),
        )
    )


def _convolutions(channels: int, width: int, kernels: tuple[int, ...], padding: int = 1) -> Iterator[nn.Module]:
    """Yield convolutions of `width` channels with sizes `kernels`, each with batch normalisation and a leaky ReLU."""
    for kernel in kernels:
        yield nn.Conv2d(channels, width, kernel, padding=padding if kernel == 3 else 0)
        # Without parameters, as in the papers. With normalisation of each sample instead, accuracy after two epochs of
        # 4,000 digits is 64 % instead of 94 %.
        yield nn.BatchNorm2d(width, affine=False)
        yield nn.LeakyReLU(0.1, inplace=True)
        channels = width


class Siamese(nn.Module):
    """Siamese network (Koch 2015) that computes the logit of the probability that two views show the same image.

    The logit is a bias minus a weighted L1 distance of the images' features. Images are standardised by the mean and
    standard deviation of the images `x` given to the constructor: (samples, channels, height, width).
    """

    def __init__(self, x: Tensor, width: int = 32) -> None:
        super().__init__()
        self.standardise = Standardise(x)
        self.features = small_cnn(tuple(x.shape[1:]), width)
        self.weights = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.ones(()))

    def embed(self, x: Tensor) -> Tensor:
        """Return the features (samples, width) of images `x` (samples, channels, height, width)."""
        return self.features(self.standardise(x.to(self.bias.device)))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the logits (…,) that two views show the same image, from features `first` and `second` (…, width)."""
        return self.bias - (first - second).abs() @ F.softplus(self.weights)


def width_of(count: float, shape: tuple[int, ...], classes: int) -> int:
    """Return the width of the `conv_net` for `shape` and `classes` whose number of parameters is closest to `count`."""
    width = 1
    while parameters(width + 1, shape, classes) <= count:
        width += 1
    return min((width, width + 1), key=lambda candidate: abs(parameters(candidate, shape, classes) - count))


def parameters(width: int, shape: tuple[int, ...], classes: int) -> int:
    """Return the number of parameters of a `conv_net` of this `width` for samples of `shape` and `classes` classes."""
    with torch.device("meta"):  # allocates no memory
        return sum(weights.numel() for weights in conv_net(shape, classes, width=width).parameters())


# Registered models; each is called with a recipe and the number of classes.
SMALL_CNN = partial(Network, small_cnn)
STUDENT_CNN = partial(Network, student_cnn)
TANH_CNN = partial(Network, tanh_cnn)
PAPER_CNN = partial(Network, paper_cnn)
PAPER_CNN_DEEP = partial(Network, paper_cnn_deep)
CONV_MIDDLE = partial(Network, partial(conv_net, width=MIDDLE))
CONV_SMALL = partial(Network, partial(conv_net, width=SMALL))
MLP = partial(Network, mlp)


def require_network(learner: Learner, model: str) -> Network:
    """Return `learner` if it is a network; otherwise raise PatebenchError with the name `model`."""
    if not isinstance(learner, Network):
        raise PatebenchError(
            f"the model '{model}' is not a network, but this method requires one; use small-cnn or mlp"
        )
    return learner


def untrained_network(
    model: str, pool: NDArray[Any], outputs: int, compression: float = 1.0
) -> tuple[nn.Module, Standardise]:
    """Return an untrained network of the registered `model`, and a module that standardises samples for it.

    The network accepts samples of the shape of those in `pool` (samples, …) and has `outputs` outputs. Samples are
    standardised by the mean and standard deviation of the pool. With a `compression` of c, the network has about 1/c of
    the model's parameters. Both modules are on this process's device (`models.device`). Raises PatebenchError if the
    model is not a network, or cannot be compressed.
    """
    learner = require_network(make_learner(model, "modern", classes=outputs), model)
    build, shape = learner.build, pool.shape[1:]
    if compression != 1:
        check_compressible(model)
        assert isinstance(build, partial)
        assert build.func is conv_net
        count = parameters(build.keywords["width"], shape, outputs) / compression
        build = partial(conv_net, width=width_of(count, shape, outputs))
    net = build(shape, outputs).to(learner.device)
    if pool.ndim == 4:
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net, Standardise(torch.from_numpy(pool)).to(learner.device)
