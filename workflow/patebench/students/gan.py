"""The student of PATE 2017: a semi-supervised GAN (Salimans et al. 2016, *Improved techniques for training GANs*).

The discriminator assigns samples to k classes or to "generated". Released labels teach it the classes, and the pool
shows it real samples. The generator learns to match the mean of the discriminator's features on the pool (feature
matching). As in Salimans et al., networks are convolutional for colour images such as SVHN. For grey images such as
MNIST and for tables, they are fully connected, and the discriminator has layers of 1000, 500, 250, 250 and 250 units.
Images have values in [0, 1].

Here, the pool is often smaller or the training shorter than in PATE 2017 and in Salimans et al. Three additions make up
for this:

- the discriminator sees real images in random views;
- predictions use a moving average (EMA) of the weights;
- the discriminator must agree with the EMA on samples about which the EMA is confident, after the consistency term of
  Wei et al. 2018 (*Improving the improved training of Wasserstein GANs*).
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm

from patebench.models.device import autocast, device
from patebench.models.optimisers import Adam, ema_copy, ema_update
from patebench.models.scaling import Standardise
from patebench.students.interface import StudentConfig, StudentData, StudentTrainer
from patebench.students.semi_supervised import (
    Batch,
    DistributionAlignment,
    PoolTrainer,
    agreement_loss,
    batch_and_epochs,
)

#: Length of the generator's random input.
LATENT = 100


class GaussianNoise(nn.Module):
    """Module that adds Gaussian noise of standard deviation `deviation` in training, and nothing in evaluation."""

    def __init__(self, deviation: float) -> None:
        super().__init__()
        self.deviation = deviation

    def forward(self, x: Tensor) -> Tensor:
        return x + self.deviation * torch.randn_like(x) if self.training else x


class Discriminator(nn.Module):
    """Network that returns the logits (samples, classes) of the real classes, and hidden features (samples, `width`).

    The generator learns to match the mean of the hidden features. The logit of the class "generated" is fixed at 0,
    since one of k + 1 free logits would be redundant (Salimans et al. 2016, section 5).
    """

    def __init__(self, features: nn.Sequential, width: int, classes: int, noise: float) -> None:
        super().__init__()
        self.features, self.head = features, nn.Sequential(GaussianNoise(noise), weight_norm(nn.Linear(width, classes)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(x)
        return self.head(features), features


def convolutional(shape: tuple[int, ...]) -> bool:
    """Return True if samples of `shape` get convolutional networks: colour images of at least 16 pixels a side."""
    return len(shape) == 3 and shape[0] > 1 and min(shape[1:]) >= 16


def networks(shape: tuple[int, ...], classes: int, noise: float = 0.5) -> tuple[str, Discriminator, nn.Module]:
    """Return the architecture's name, an untrained discriminator and an untrained generator for samples of `shape`.

    `noise` is the standard deviation of the Gaussian noise on the hidden layers of the fully connected discriminator.
    Noise on the input of this discriminator has the standard deviation 0.6 · `noise`. The convolutional discriminator
    has dropout instead.
    """
    if convolutional(shape):
        return "salimans-cnn", _convolutional_discriminator(shape, classes), _convolutional_generator(shape)
    return "salimans-mlp", _fully_connected_discriminator(shape, classes, noise), _fully_connected_generator(shape)


@torch.no_grad()
def initialise(discriminator: Discriminator, x: Tensor) -> None:
    """Rescale weights and biases of `discriminator` so that the outputs of its layers are normalised on samples `x`.

    Each output of a linear or convolutional layer then has mean 0 and variance 1 over samples and positions (Salimans &
    Kingma 2016).
    """
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


def _fully_connected_discriminator(shape: tuple[int, ...], classes: int, noise: float) -> Discriminator:
    layers: list[nn.Module] = [nn.Flatten(), GaussianNoise(0.6 * noise)]
    width = math.prod(shape)
    for hidden in (1000, 500, 250, 250, 250):
        layers += [weight_norm(nn.Linear(width, hidden)), nn.ReLU(), GaussianNoise(noise)]
        width = hidden
    return Discriminator(nn.Sequential(*layers[:-1]), width, classes, noise)


def _fully_connected_generator(shape: tuple[int, ...]) -> nn.Module:
    image = len(shape) == 3
    return nn.Sequential(
        nn.Linear(LATENT, 500, bias=False), nn.BatchNorm1d(500), nn.Softplus(),
        nn.Linear(500, 500, bias=False), nn.BatchNorm1d(500), nn.Softplus(),
        nn.Linear(500, math.prod(shape)), nn.Sigmoid() if image else nn.Identity(), nn.Unflatten(1, shape),
    )  # fmt: skip


def _convolutional_discriminator(shape: tuple[int, ...], classes: int) -> Discriminator:
    """Return the discriminator for SVHN of Salimans et al. 2016, for images of `shape` (channels, height, width)."""
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


def _convolutional_generator(shape: tuple[int, ...]) -> nn.Module:
    """Return a generator with two transposed convolutions, for images of `shape` (channels, height, width)."""
    channels, height, width = shape
    rows, columns = math.ceil(height / 4), math.ceil(width / 4)
    return nn.Sequential(
        nn.Linear(LATENT, 128 * rows * columns, bias=False), nn.BatchNorm1d(128 * rows * columns), nn.ReLU(),
        nn.Unflatten(1, (128, rows, columns)),
        nn.ConvTranspose2d(128, 64, 4, 2, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.ConvTranspose2d(64, channels, 4, 2, padding=1), nn.AdaptiveAvgPool2d((height, width)), nn.Sigmoid(),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GANSettings:
    """Settings of a GAN and of its training by Adam.

    Parameters
    ----------
    epochs : number of passes over the pool
    batch : number of samples of the pool per step; as many samples are generated
    labelled : number of samples with labels per step
    learning_rate : learning rate in the first half of the training; it falls linearly to 0 in the second half
    momentum : Adam's β₁
    decay : decay per step of the EMA (moving average) of the weights
    noise : standard deviation of the noise on the hidden layers of a fully connected discriminator
    agreement : weight of the consistency term, a cross-entropy to labels that the EMA predicts
    confident, confident_last : threshold at the start and at the end of the training. Predicted labels are used if
        their probability is above the threshold
    ramp : share of the training in which the weight of the consistency term rises from 0
    """

    epochs: int
    batch: int
    labelled: int = 32
    learning_rate: float = 3e-3
    momentum: float = 0.5
    decay: float = 0.995
    noise: float = 0.5
    agreement: float = 2.0
    confident: float = 0.95
    confident_last: float = 0.5
    ramp: float = 0.1


class GANTrainer(PoolTrainer):
    """Trainer of a discriminator and a generator. The student is a discriminator with averaged weights (EMA)."""

    hyperparameters: GANSettings

    def __init__(self, data: StudentData, settings: GANSettings) -> None:
        table = data.pool.ndim != 4
        scale = Standardise(torch.from_numpy(data.pool).to(device())) if table else lambda x: x.float() / 255
        super().__init__(data, settings, scale, fill=0.0)
        self.model, self.discriminator, self.generator = networks(
            tuple(data.pool.shape[1:]), data.classes, settings.noise
        )
        self.discriminator.to(self.device), self.generator.to(self.device)
        self.alignment = DistributionAlignment(data).to(self.device)
        initialise(self.discriminator, self.x[: 5 * settings.batch])
        self.ema = ema_copy(self.discriminator)
        self.optimisers = [
            Adam(net.parameters(), settings.learning_rate, betas=(settings.momentum, 0.999), fused=True)
            for net in (self.discriminator, self.generator)
        ]
        self.steps = settings.epochs * (len(self.x) // settings.batch)
        self.parts = {
            "discriminator": self.discriminator, "generator": self.generator, "ema": self.ema,
            "alignment": self.alignment, "optimiser 0": self.optimisers[0], "optimiser 1": self.optimisers[1],
        }  # fmt: skip

    def epoch(self) -> dict[str, float]:
        """Train for one pass over the pool, without an incomplete last batch; return the mean of each loss, by name."""
        self.discriminator.train(), self.generator.train()
        size = self.hyperparameters.batch
        order = torch.randperm(len(self.x))[: len(self.x) // size * size]
        terms = [self._step(batch) for batch in self.batches(order)]
        names = ("labelled loss", "unlabelled loss", "agreement loss", "generator loss")
        return dict(zip(names, torch.stack(terms).mean(0).tolist(), strict=True))

    def _step(self, batch: Batch) -> Tensor:
        settings, progress = self.hyperparameters, batch.progress
        predicted = self.alignment(self.predict_weak_views(batch.x))
        views = self.view(torch.cat([batch.labelled, batch.x]), "medium")
        with autocast(self.device), parametrize.cached():  # weight normalisation is computed once a step
            logits, features = self.discriminator(views)
            labelled, real = logits.float().tensor_split([settings.labelled])
            supervised = F.cross_entropy(labelled, batch.y)
            weight = settings.agreement * min(1.0, progress / settings.ramp)
            agreement = weight * agreement_loss(real, predicted, settings.confident, settings.confident_last, progress)
            generated, gradient, unlabelled, matching = self._adversarial(real, features[settings.labelled :].detach())
        self._take_step(0, supervised + unlabelled + agreement)
        self._take_step(1, generated, gradient)
        self.step += 1
        ema_update(self.ema, self.discriminator, self.step, settings.decay)
        return torch.stack([supervised, unlabelled, agreement, matching]).detach()

    def _adversarial(self, real: Tensor, features: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Generate as many samples as there are real ones, and return four tensors.

        - The generated samples.
        - The gradient of the generator's loss at these samples.
        - The discriminator's loss on unlabelled samples, real and generated.
        - The generator's loss (feature matching).

        For the real samples, `real` (samples, classes) are the discriminator's logits, and `features` (samples,
        features) are the discriminator's hidden features.
        """
        generated = self.generator(torch.rand(len(real), LATENT, device=self.device))
        fake = generated.detach().requires_grad_()
        fake_logits, fake_features = self.discriminator(fake)
        matching = (fake_features.float().mean(0) - features.float().mean(0)).square().mean()
        (gradient,) = torch.autograd.grad(matching, fake, retain_graph=True)
        loss = (F.softplus(-real.logsumexp(1)).mean() + F.softplus(fake_logits.float().logsumexp(1)).mean()) / 2
        return generated, gradient, loss, matching

    def _take_step(self, network: int, output: Tensor, gradient: Tensor | None = None) -> None:
        """Take an optimiser step of the discriminator (`network` 0) or of the generator (`network` 1).

        If `gradient` is None, `output` is the loss to minimise. Otherwise `output` is the result of the network, and
        `gradient` is the derivative of the loss with respect to `output`.
        """
        optimiser = self.optimisers[network]
        optimiser.zero_grad(set_to_none=True)
        output.backward(gradient)  # type: ignore[no-untyped-call]
        for group in optimiser.param_groups:
            group["lr"] = self.hyperparameters.learning_rate * min(1.0, 2 * (1 - self.step / self.steps))
        optimiser.step()

    def logits(self, x: Tensor) -> Tensor:
        return self.ema(x)[0]


def trainer(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the trainer of a GAN whose networks suit the shape of the pool's samples (see `networks`).

    Random draws come from torch's global generator, which `student_training.train` seeds.
    """
    large = 80 if convolutional(data.pool.shape[1:]) else 160  # a step of convolutions takes thirty times as long
    return GANTrainer(data, GANSettings(**batch_and_epochs(data, config, batch=100, small=60, large=large)))
