"""The only way to private gradients: a Poisson batch, a clipped sum, noise, and a step counter.

The account uses this count, the rate of the sampler and the noise actually added, so it is valid for the run. A sampler
that does not draw as stated is refused. Everything except `NoisySteps` is post-processing: noisy sums drive Adam
(`train`), and an average of the weights predicts. Adam's steps do not change when all gradients are scaled alike, so
sums work as well as means, and the number of private samples stays private.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from patebench.accounting.subsampled_gaussian import SubsampledGaussian
from patebench.baselines.clipped_models import PrivateModel
from patebench.baselines.sampling_check import SamplingCheck
from patebench.core.errors import PatebenchError
from patebench.core.progress import Report
from patebench.models.optimisers import Adam, ema_update_tensors

#: Computes a sum over the samples at these positions to which each adds at most the given norm, such as the sum of
#: their clipped gradients.
ClippedSum = Callable[[Tensor, float], Tensor]


class PoissonSampler:
    """Sampler that includes every sample with probability `rate`, independently of all others and of other steps."""

    def __init__(self, rate: float, rng: torch.Generator) -> None:
        self.rate, self._rng = rate, rng

    def draw(self, samples: int) -> Tensor:
        """Draw positions among `samples` samples."""
        return torch.nonzero(torch.rand(samples, generator=self._rng, dtype=torch.float64) < self.rate).flatten()


class NoisySteps:
    """Steps of the Poisson-subsampled Gaussian mechanism on one set of samples.

    `noise` is the standard deviation divided by the clipping norm. It never depends on the samples, nor on the number
    of samples or of drawn samples, since these numbers are private.
    """

    def __init__(
        self, sampler: PoissonSampler, samples: int, *, noise: float, clip: float, rng: torch.Generator
    ) -> None:
        if not (0 <= noise < math.inf and 0 < clip < math.inf):
            raise PatebenchError(f"noise = {noise} and clip = {clip}; both must be finite, and the clip above 0")
        self._sampler, self._samples = sampler, samples
        self._noise, self._clip, self._rng = noise, clip, rng
        self._rate = SubsampledGaussian(noise, sampler.rate, steps=0).rate  # refuses a rate of 0 or above 1
        self._drawn = SamplingCheck(self._rate, samples)

    def step(self, clipped_sum: ClippedSum) -> Tensor:
        """Return the noisy sum of a fresh batch's clipped gradients, in units of the clipping norm."""
        chosen = self._sampler.draw(self._samples)
        if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < self._samples:
            raise PatebenchError(f"the sampler drew positions outside 0 … {self._samples - 1}; draw from these only")
        if len(torch.unique(chosen)) < len(chosen):
            raise PatebenchError("a step drew a sample twice; the account of Poisson sampling is not valid for that")
        self._drawn.add(chosen.cpu().numpy())
        total = clipped_sum(chosen, self._clip)
        normal = torch.randn(total.shape, generator=self._rng).to(total.device)
        return total / self._clip + self._noise * normal

    def spent(self) -> SubsampledGaussian:
        """Return the steps taken so far.

        Raises PatebenchError if the batches cannot come from Poisson sampling at the stated rate; the test looks only
        at the sampler's draws, never at a sample.
        """
        if self._rate != self._sampler.rate:
            raise PatebenchError(f"the sampler's rate changed from {self._rate} to {self._sampler.rate}")
        fault = self._drawn.failed()
        if fault is not None:
            raise PatebenchError(
                f"{fault} cannot come from Poisson sampling at a rate of {self._rate:g}, which the account assumes;"
                " use PoissonSampler"
            )
        return SubsampledGaussian(self._noise, self._rate, self._drawn.steps)


#: Number of points of a learning curve.
_POINTS = 10


@dataclass(frozen=True)
class Trained:
    """The averaged weights, and the learning curve of accuracies."""

    weights: Tensor
    curve: list[dict[str, float]]


def train(
    model: PrivateModel,
    noisy: NoisySteps,
    *,
    steps: int,
    learning_rate: float,
    ema: float,
    evaluate: Callable[[Tensor], float],
    report: Report | None = None,
) -> Trained:
    """Take `steps` noisy steps, with a learning rate that falls linearly to 0.

    `evaluate` returns the accuracy of weights on public samples; it is called ten times during training.
    """
    weights = model.start()
    average = weights.clone()
    optimiser = Adam([weights], learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=steps)
    curve = []
    for step in range(1, steps + 1):
        weights.grad = noisy.step(partial(model.clipped_sum, weights))
        optimiser.step()
        schedule.step()
        ema_update_tensors([average], [weights], step, ema)
        if step * _POINTS // steps > (step - 1) * _POINTS // steps:
            curve.append({"step": step, "accuracy": evaluate(average)})
        if report:
            report(step, steps)
    return Trained(average, curve)
