"""The networks of the GAN student: discriminators with weight normalisation and noise, and generators to match.

Fully connected for tables and grey images, 1000-500-250-250-250 as for MNIST in Salimans et al. 2016; convolutional for
colour images, as they did for SVHN. Images have values in [0, 1].
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

#: Length of the generator's random input.
LATENT = 100


class GaussianNoise(nn.Module):
    """Adds Gaussian noise of standard deviation `deviation` in training, and nothing in evaluation."""

    def __init__(self, deviation: float) -> None:
        super().__init__()
        self.deviation = deviation

    def forward(self, x: Tensor) -> Tensor:
        return x + self.deviation * torch.randn_like(x) if self.training else x


class Discriminator(nn.Module):
    """Returns the logits (samples, classes) of the real classes, and the features whose means the generator must match.

    The logit of the class "generated" is fixed at 0: of k + 1 free logits one would be redundant (Salimans et al. 2016,
    section 5).
    """

    def __init__(self, features: nn.Sequential, width: int, classes: int, noise: float) -> None:
        super().__init__()
        self.features, self.head = features, nn.Sequential(GaussianNoise(noise), weight_norm(nn.Linear(width, classes)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(x)
        return self.head(features), features


def convolutional(shape: tuple[int, ...]) -> bool:
    """Whether samples of `shape` are images in colour, of at least 16 pixels a side."""
    return len(shape) == 3 and shape[0] > 1 and min(shape[1:]) >= 16


def networks(shape: tuple[int, ...], classes: int, noise: float = 0.5) -> tuple[str, Discriminator, nn.Module]:
    """The model's name, an untrained discriminator and an untrained generator for samples of `shape`.

    `noise` is the standard deviation of the Gaussian noise on the perceptron's hidden layers; its input has 0.6 times
    that, so 0.3 by default, as in the paper. The convolutional network has dropout instead.
    """
    if convolutional(shape):
        return "salimans-cnn", _convolutional(shape, classes), _deconvolutional(shape)
    return "salimans-mlp", _perceptron(shape, classes, noise), _generator(shape)


@torch.no_grad()
def initialise(discriminator: Discriminator, x: Tensor) -> None:
    """Scale and shift each layer so that its outputs for `x` have mean 0 and variance 1 (Salimans & Kingma 2016)."""
    for layer in [*discriminator.features, *discriminator.head]:
        x = layer(x)
        if isinstance(layer, nn.Linear | nn.Conv2d):
            axes = [axis for axis in range(x.ndim) if axis != 1]
            mean, spread = x.mean(axes, keepdim=True), x.std(axes, keepdim=True).clamp_min(1e-3)
            length = layer.get_parameter("parametrizations.weight.original0")
            length.div_(spread.view_as(length))
            assert layer.bias is not None
            layer.bias.copy_((layer.bias - mean.flatten()) / spread.flatten())
            x = (x - mean) / spread


def _perceptron(shape: tuple[int, ...], classes: int, noise: float) -> Discriminator:
    layers: list[nn.Module] = [nn.Flatten(), GaussianNoise(0.6 * noise)]
    width = math.prod(shape)
    for hidden in (1000, 500, 250, 250, 250):
        layers += [weight_norm(nn.Linear(width, hidden)), nn.ReLU(), GaussianNoise(noise)]
        width = hidden
    return Discriminator(nn.Sequential(*layers[:-1]), width, classes, noise)


def _generator(shape: tuple[int, ...]) -> nn.Module:
    image = len(shape) == 3
    return nn.Sequential(
        nn.Linear(LATENT, 500, bias=False), nn.BatchNorm1d(500), nn.Softplus(),
        nn.Linear(500, 500, bias=False), nn.BatchNorm1d(500), nn.Softplus(),
        nn.Linear(500, math.prod(shape)), nn.Sigmoid() if image else nn.Identity(), nn.Unflatten(1, shape),
    )  # fmt: skip


def _convolutional(shape: tuple[int, ...], classes: int) -> Discriminator:
    """Salimans et al.'s network for SVHN: three 3×3 convolutions of 64 and of 128 channels, the third with stride 2."""
    layers: list[nn.Module] = [nn.Dropout2d(0.2)]
    width = shape[0]
    for channels in (64, 128):
        for stride in (1, 1, 2):
            layers += [weight_norm(nn.Conv2d(width, channels, 3, stride, padding=1)), nn.LeakyReLU(0.2)]
            width = channels
        layers += [nn.Dropout2d(0.5)]
    for size in (3, 1, 1):
        layers += [weight_norm(nn.Conv2d(width, 128, size)), nn.LeakyReLU(0.2)]
    return Discriminator(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), width, classes, 0.0)


def _deconvolutional(shape: tuple[int, ...]) -> nn.Module:
    """Two transposed convolutions with stride 2, from a quarter of the size of the images to the whole."""
    channels, height, width = shape
    rows, columns = math.ceil(height / 4), math.ceil(width / 4)
    return nn.Sequential(
        nn.Linear(LATENT, 128 * rows * columns, bias=False), nn.BatchNorm1d(128 * rows * columns), nn.ReLU(),
        nn.Unflatten(1, (128, rows, columns)),
        nn.ConvTranspose2d(128, 64, 4, 2, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.ConvTranspose2d(64, channels, 4, 2, padding=1), nn.AdaptiveAvgPool2d((height, width)), nn.Sigmoid(),
    )  # fmt: skip
