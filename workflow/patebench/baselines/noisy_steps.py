"""Noisy steps on private samples: draw a Poisson batch, sum clipped contributions, add noise, and count the step.

`NoisySteps` is the only access to private samples in DP-SGD. The accountant uses its number of steps, its sampling rate
and the noise actually added. A sampler that does not draw at the stated rate causes an error.

All other computations are post-processing of the noisy sums: `train` passes the sums to Adam and averages the weights.
The sums are not divided by the number of private samples, because this number is private. Adam works without the
division, since its steps do not depend on the scale of the gradients.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from patebench.accounting.subsampled_gaussian import SubsampledGaussian
from patebench.baselines.clipped_models import PrivateModel
from patebench.baselines.sampling_check import SamplingCheck
from patebench.core.errors import PatebenchError
from patebench.core.progress import Report, silent
from patebench.models.optimisers import Adam, ema_update_tensors


class PoissonSampler:
    """Poisson sampler: a sample is in a batch with probability `rate`, independently of other samples and batches."""

    def __init__(self, rate: float, rng: torch.Generator) -> None:
        self.rate, self._rng = rate, rng

    def draw(self, samples: int) -> Tensor:
        """Draw a batch from `samples` samples; return the positions of its samples, in 0 … `samples` − 1."""
        return torch.nonzero(torch.rand(samples, generator=self._rng, dtype=torch.float64) < self.rate).flatten()


class NoisySteps:
    """Steps of the Poisson-subsampled Gaussian mechanism on one set of private samples.

    `sampler` draws the batches from `samples` private samples, and `clip` is the clipping norm. `noise` is the noise
    multiplier, the standard deviation divided by the clipping norm. The noise multiplier must not depend on private
    information: the samples, the number of samples, and the batch sizes.
    """

    def __init__(
        self, sampler: PoissonSampler, samples: int, *, noise: float, clip: float, rng: torch.Generator
    ) -> None:
        if not (0 <= noise < math.inf and 0 < clip < math.inf):
            raise PatebenchError(
                f"noise = {noise} and clip = {clip} are invalid; give finite numbers, with noise ≥ 0 and clip > 0"
            )
        self._sampler, self._samples = sampler, samples
        self._noise, self._clip, self._rng = noise, clip, rng
        self._rate = SubsampledGaussian(noise, sampler.rate, steps=0).rate  # raises an error for a rate of 0 or above 1
        self._sampling_check = SamplingCheck(self._rate, samples)

    def step(self, clipped_sum: Callable[[Tensor, float], Tensor]) -> Tensor:
        """Draw a batch; return its clipped sum in units of the clipping norm, plus Gaussian noise, as 32-bit floats.

        The function `clipped_sum` gets the positions of the batch and the clipping norm. It must return the sum of one
        vector per sample of the batch, such as the clipped gradient, whose norm is at most the clipping norm.

        Noise is drawn in double precision, because draws in single precision end at 5.8 standard deviations. The result
        is rounded to single precision, because the last digits of a double could reveal the sum.
        """
        positions = self._sampler.draw(self._samples)
        if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < self._samples:
            raise PatebenchError(f"the sampler drew positions outside 0 … {self._samples - 1}; use PoissonSampler")
        if len(torch.unique(positions)) < len(positions):
            raise PatebenchError(
                "the sampler drew a sample twice in one batch, but Poisson sampling never does; use PoissonSampler"
            )
        self._sampling_check.add(positions.cpu().numpy())
        total = clipped_sum(positions, self._clip)
        normal = torch.randn(total.shape, generator=self._rng, dtype=torch.float64).to(total.device)
        return (total.double() / self._clip + self._noise * normal).float()

    def spent(self) -> SubsampledGaussian:
        """Return the mechanism of all steps taken so far, with its noise multiplier, sampling rate and number of steps.

        The accountant computes ε from this mechanism. Raises PatebenchError if the drawn batches contradict Poisson
        sampling at the stated rate. This test uses only the positions that the sampler drew, not the samples
        themselves.
        """
        if self._rate != self._sampler.rate:
            raise PatebenchError(
                f"the sampler's rate changed from {self._rate} to {self._sampler.rate}; use one rate for all steps"
            )
        fault = self._sampling_check.failed()
        if fault is not None:
            raise PatebenchError(
                f"ε assumes Poisson sampling at a rate of {self._rate:g}, but {fault} contradict this; draw the batches"
                " with PoissonSampler"
            )
        return SubsampledGaussian(self._noise, self._rate, self._sampling_check.steps)


#: Number of points of a learning curve.
_POINTS = 10


def train(
    model: PrivateModel,
    noisy: NoisySteps,
    *,
    steps: int,
    learning_rate: float,
    ema: float,
    evaluate: Callable[[Tensor], float],
    report: Report = silent,
) -> tuple[Tensor, list[dict[str, float]]]:
    """Train `model` by DP-SGD with Adam in `steps` steps, with a learning rate that falls linearly to 0.

    Returns the exponential moving average of the weights (decay `ema` per step) and a learning curve. The curve has up
    to ten rows with "step" and "accuracy"; `evaluate` computes the accuracy of averaged weights on public samples.
    `noisy` draws the batches and adds the noise to the sums of clipped gradients.
    """
    weights = model.start()
    average = weights.clone()
    optimiser = Adam([weights], learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=steps)
    curve = []
    for step in range(1, steps + 1):
        weights.grad = noisy.step(partial(model.clipped_sum, weights)).to(weights.dtype)
        optimiser.step()
        schedule.step()
        ema_update_tensors([average], [weights], step, ema)
        if step * _POINTS // steps > (step - 1) * _POINTS // steps:
            curve.append({"step": step, "accuracy": evaluate(average)})
        report(step, steps)
    return average, curve
