"""The student of PATE 2017: a semi-supervised GAN (Salimans et al. 2016, *Improved techniques for training GANs*).

The discriminator tells k classes of real samples from generated ones; released labels teach it the classes, the pool
what is real. The generator matches the mean of the discriminator's features on the pool (feature matching).

Beyond the papers, which had six times as many samples or hours to train: real images are seen in random views, the
weights are averaged, and the discriminator must agree with that average where it is confident, after the consistency
term of Wei et al. 2018 (*Improving the improved training of Wasserstein GANs*).
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parametrize

from patebench.models.average import follow, follower
from patebench.models.network import Standardise
from patebench.models.precision import reduced
from patebench.students.adversaries import LATENT, convolutional, initialise, networks
from patebench.students.agreement import agreement
from patebench.students.alignment import Alignment
from patebench.students.lesson import Approach, Lesson, Training
from patebench.students.semi import epochs_for
from patebench.students.views import Views

#: How many samples are labelled at once.
_PREDICT_BATCH = 200
#: What else than optimisers changes in training.
_PARTS = ("discriminator", "generator", "average", "alignment")
#: Rows and columns of the picture of generated samples.
_GRID = (5, 10)


@dataclass(frozen=True, kw_only=True)
class How:
    """Adam at `learning_rate`, falling to zero over the second half; Gaussian `noise` on the perceptron's layers.

    A step takes `batch` samples of the pool, as many generated ones, and `labelled` ones with labels. `agreement` is
    the weight of the consistency term, reached after the share `ramp` of the training, where the average's probability
    is above `confident`, which falls to `confident_last`.
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


class Gan:
    """A discriminator and a generator; the average of the discriminator's weights is the student."""

    recipe = "own"

    def __init__(self, lesson: Lesson, how: How) -> None:
        self.how, self.epochs, self.settings = how, how.epochs, asdict(how)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        pool = torch.from_numpy(lesson.pool).to(self.device)
        self.scale = _Unit() if lesson.pool.ndim == 4 else Standardise(pool)
        self.x, self.answered = self.scale(pool), torch.from_numpy(lesson.answered)
        self.y = torch.from_numpy(lesson.labels[lesson.answered]).to(self.device)
        self.views = Views(fill=0.0)
        self.model, self.discriminator, self.generator = networks(
            tuple(lesson.pool.shape[1:]), lesson.classes, how.noise
        )
        self.discriminator.to(self.device), self.generator.to(self.device)
        self.alignment = Alignment(lesson).to(self.device)
        initialise(self.discriminator, self.x[: 5 * how.batch])
        self.average = follower(self.discriminator)
        self.optimisers = [
            torch.optim.Adam(net.parameters(), how.learning_rate, betas=(how.momentum, 0.999), fused=True)
            for net in (self.discriminator, self.generator)
        ]
        self.steps, self.step = how.epochs * (len(self.x) // how.batch), 0

    def epoch(self) -> dict[str, float]:
        """Pass once over the pool; the mean losses."""
        self.discriminator.train(), self.generator.train()
        whole = len(self.x) // self.how.batch * self.how.batch
        terms = [self._step(chosen) for chosen in torch.randperm(len(self.x))[:whole].split(self.how.batch)]  # type: ignore[no-untyped-call]
        names = ("labelled loss", "unlabelled loss", "agreement loss", "generator loss")
        return dict(zip(names, torch.stack(terms).mean(0).tolist(), strict=True))

    def _step(self, chosen: Tensor) -> Tensor:
        how, done = self.how, self.step / self.steps
        known = torch.randint(len(self.answered), (how.labelled,))
        guess = self._guess(self.x[chosen])
        seen = self.views.medium(torch.cat([self.x[self.answered[known]], self.x[chosen]]))
        with reduced(self.device), parametrize.cached():  # the weights of a step are normalised once
            logits, features = self.discriminator(seen)
            labelled, real = logits.float().tensor_split([how.labelled])
            taught = F.cross_entropy(labelled, self.y[known])
            weight = how.agreement * min(1.0, done / how.ramp)
            agreed = weight * agreement(real, guess, how.confident, how.confident_last, done)
            generated, gradient, unlabelled, matching = self._play(real, features[how.labelled :].detach())
        self._move(0, taught + unlabelled + agreed)
        self._move(1, generated, gradient)
        self.step += 1
        follow(self.average, self.discriminator, self.step, how.decay)
        return torch.stack([taught, unlabelled, agreed, matching]).detach()

    @torch.no_grad()
    def _guess(self, x: Tensor) -> Tensor:
        """The average's probabilities (samples, classes), aligned with the shares of the classes."""
        self.average.eval()
        with reduced(self.device):
            logits, _ = self.average(self.views.weak(x))
        aligned: Tensor = self.alignment(logits.float().softmax(1))
        return aligned

    def _play(self, real: Tensor, features: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Generated samples, the gradient of the generator's loss at them, the discriminator's loss, the generator's.

        `real` are the logits and `features` the features of as many samples of the pool.
        """
        generated = self.generator(torch.rand(len(real), LATENT, device=self.device))
        shown = generated.detach().requires_grad_()
        drawn, imitated = self.discriminator(shown)
        matching = (imitated.float().mean(0) - features.float().mean(0)).square().mean()
        (gradient,) = torch.autograd.grad(matching, shown, retain_graph=True)
        loss = (F.softplus(-real.logsumexp(1)).mean() + F.softplus(drawn.float().logsumexp(1)).mean()) / 2
        return generated, gradient, loss, matching

    def _move(self, which: int, end: Tensor, gradient: Tensor | None = None) -> None:
        """Move the discriminator or the generator against the gradient that enters at `end`."""
        optimiser = self.optimisers[which]
        optimiser.zero_grad(set_to_none=True)
        end.backward(gradient)  # type: ignore[no-untyped-call]
        for group in optimiser.param_groups:
            group["lr"] = self.how.learning_rate * min(1.0, 2 * (1 - self.step / self.steps))
        optimiser.step()

    @torch.inference_mode()
    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        self.average.eval()
        batches = torch.from_numpy(x).split(_PREDICT_BATCH)  # type: ignore[no-untyped-call]
        with reduced(self.device):
            answers = [self.views.answer(self._logits, self.scale(batch.to(self.device))).cpu() for batch in batches]
        found: NDArray[np.float64] = torch.cat(answers).double().log_softmax(1).numpy()
        return found

    def _logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.average(x)[0]
        return logits

    @torch.inference_mode()
    def picture(self) -> NDArray[np.uint8] | None:
        """A grid of generated images (height, width, channels), None for tables; the same draws for each student."""
        if self.x.ndim == 2:
            return None
        rng = torch.Generator().manual_seed(0)
        rows, columns = _GRID
        self.generator.eval()
        images = self.generator(torch.rand(rows * columns, LATENT, generator=rng).to(self.device)).float().cpu()
        _, channels, height, width = images.shape
        grid = images.view(rows, columns, channels, height, width).permute(0, 3, 1, 4, 2)
        found: NDArray[np.uint8] = (grid.reshape(rows * height, columns * width, channels) * 255).byte().numpy()
        return found

    def state(self) -> dict[str, Any]:
        nets = {name: getattr(self, name).state_dict() for name in _PARTS}
        return {**nets, "optimisers": [each.state_dict() for each in self.optimisers], "step": self.step}

    def restore(self, state: dict[str, Any]) -> None:
        for name in _PARTS:
            getattr(self, name).load_state_dict(state[name])
        for optimiser, kept in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(kept)
        self.step = state["step"]


class _Unit(nn.Module):
    """Bytes to [0, 1]."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float() / 255


def start(lesson: Lesson, approach: Approach, seed: int) -> Training:
    """A GAN for the pool's shape."""
    batch = min(100, max(16, len(lesson.pool) // 8))
    large = 80 if convolutional(lesson.pool.shape[1:]) else 160  # convolutions take thirty times as long
    return Gan(lesson, How(batch=batch, epochs=epochs_for(lesson, approach, small=60, large=large)))
