"""The only way to private gradients: a Poisson batch, a clipped sum, noise, and the count of the steps.

The account is made of the count, the rate of the sampler and the noise that was added, so it holds for what ran. A
sampler that did not draw as it says is refused. All but `NoisySteps` is post-processing: noisy sums drive Adam
(`train`), and an average of the weights predicts. Adam's steps do not change when all gradients are scaled alike, so a
sum serves as well as a mean, and the number of private samples stays private.
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

#: Of the samples at these positions, what one more sample changes by the norm given at most: such as the sum of their
#: gradients, each clipped to that norm.
ClippedSum = Callable[[Tensor, float], Tensor]


class PoissonSampler:
    """Every sample takes part with probability `rate`, independently of all others and of other steps."""

    def __init__(self, rate: float, rng: torch.Generator) -> None:
        self.rate, self._rng = rate, rng

    def draw(self, samples: int) -> Tensor:
        """Return the positions drawn among `samples` samples."""
        return torch.nonzero(torch.rand(samples, generator=self._rng, dtype=torch.float64) < self.rate).flatten()


class NoisySteps:
    """Steps of the Poisson-subsampled Gaussian mechanism on one set of samples.

    `noise` is the standard deviation over the clipping norm. It never depends on the samples, nor on how many there are
    or were drawn: the number itself is private.
    """

    def __init__(
        self, sampler: PoissonSampler, samples: int, *, noise: float, clip: float, rng: torch.Generator
    ) -> None:
        if not (0 <= noise < math.inf and 0 < clip < math.inf):
            raise PatebenchError(f"noise = {noise} and clip = {clip}; finite ones are needed, and a clip above 0")
        self._sampler, self._samples = sampler, samples
        self._noise, self._clip, self._rng = noise, clip, rng
        self._rate = SubsampledGaussian(noise, sampler.rate, steps=0).rate  # a rate above 1 or of 0 is refused
        self._drawn = SamplingCheck(self._rate, samples)

    def step(self, clipped_sum: ClippedSum) -> Tensor:
        """Return the noisy sum of a fresh batch's clipped gradients, in units of the clipping norm."""
        chosen = self._sampler.draw(self._samples)
        if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < self._samples:
            raise PatebenchError(f"the sampler drew positions outside 0 … {self._samples - 1}; draw from these only")
        if len(torch.unique(chosen)) < len(chosen):
            raise PatebenchError("a step drew a sample twice; no account of Poisson sampling holds for that")
        self._drawn.add(chosen.cpu().numpy())
        total = clipped_sum(chosen, self._clip)
        drawn = torch.randn(total.shape, generator=self._rng).to(total.device)
        return total / self._clip + self._noise * drawn

    def spent(self) -> SubsampledGaussian:
        """Return what was done so far.

        Raises PatebenchError if the batches were not those of Poisson sampling at the stated rate; that looks at the
        sampler alone, never at a sample.
        """
        if self._rate != self._sampler.rate:
            raise PatebenchError(f"the sampler's rate was {self._rate} and is {self._sampler.rate}")
        fault = self._drawn.failed()
        if fault is not None:
            raise PatebenchError(
                f"{fault} can not come from Poisson sampling at a rate of {self._rate:g}, which the account assumes;"
                " use PoissonSampler"
            )
        return SubsampledGaussian(self._noise, self._rate, self._drawn.steps)


#: Number of points of a learning curve.
_POINTS = 10


@dataclass(frozen=True)
class Trained:
    """The averaged weights, and the accuracy on the way."""

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
    """Take `steps` noisy steps; the learning rate falls to 0 along a line.

    `evaluate` gives the accuracy of weights on public samples, ten times on the way.
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
