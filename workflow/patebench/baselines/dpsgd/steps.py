"""The only way to private gradients: a Poisson batch, a clipped sum, noise, and the count of what was done.

What the accountant assumes is what ran, since its account is made of the count: the rate of the sampler that drew, the
noise that was added, and the number of steps. A sampler that did not draw as it says is refused.
"""

import math
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from patebench.accounting.subsampled_gaussian import SubsampledGaussian
from patebench.core.errors import PatebenchError

#: Of the samples at these positions, what one more sample changes by the norm given at most: such as the sum of their
#: gradients, each clipped to that norm.
ClippedSum = Callable[[Tensor, float], Tensor]

#: What is below the first or above the second, in standard deviations, is not due to chance: once in 10¹² runs.
_FEWER, _MORE = -7.0, 10.0

#: Of so many draws the distribution is known well enough to be looked at.
_ENOUGH = 20


class Sampler(Protocol):
    """Draws the samples of a step."""

    @property
    def rate(self) -> float:
        """The probability with which each takes part, independently of all others and of other steps."""

    def draw(self, samples: int) -> Tensor:
        """Positions among so many samples."""


class PoissonSampler:
    """Every sample takes part with probability `rate`, by a draw of its own."""

    def __init__(self, rate: float, rng: torch.Generator) -> None:
        self.rate, self._rng = rate, rng

    def draw(self, samples: int) -> Tensor:
        return torch.nonzero(torch.rand(samples, generator=self._rng, dtype=torch.float64) < self.rate).flatten()


class NoisySteps:
    """Steps of the Poisson-subsampled Gaussian mechanism on one set of samples.

    `noise` is the standard deviation over the clipping norm. It never depends on the samples, nor on how many there are
    or were drawn: the number itself is private.
    """

    def __init__(self, sampler: Sampler, samples: int, *, noise: float, clip: float, rng: torch.Generator) -> None:
        if not (0 <= noise < math.inf and 0 < clip < math.inf):
            raise PatebenchError(f"noise = {noise} and clip = {clip}; finite ones are needed, and a clip above 0")
        self._sampler, self._samples = sampler, samples
        self._noise, self._clip, self._rng = noise, clip, rng
        self._rate, self._sizes = sampler.rate, list[int]()
        self._often = torch.zeros(samples, dtype=torch.int64)

    def step(self, clipped_sum: ClippedSum) -> Tensor:
        """The noisy sum of a fresh batch's clipped gradients, in units of the clipping norm."""
        chosen = self._sampler.draw(self._samples)
        if len(torch.unique(chosen)) < len(chosen):
            raise PatebenchError("a step drew a sample twice; no account of Poisson sampling holds for that")
        self._sizes.append(len(chosen))
        self._often[chosen] += 1
        total = clipped_sum(chosen, self._clip)
        drawn = torch.randn(total.shape, generator=self._rng).to(total.device)
        return total / self._clip + self._noise * drawn

    def spent(self) -> SubsampledGaussian:
        """What was done so far; PatebenchError if the batches were not those of Poisson sampling at the stated rate."""
        self._check()
        return SubsampledGaussian(self._noise, self._rate, len(self._sizes))

    def _check(self) -> None:
        """Sizes of batches are binomial, and so is how often each sample was drawn.

        Batches of one size vary too little in the first, shuffled epochs in the second. What is looked at follows from
        the sampler alone, never from a sample's value.
        """
        if self._rate != self._sampler.rate:
            raise PatebenchError(f"the sampler's rate was {self._rate} and is {self._sampler.rate}")
        sizes, n, steps = torch.tensor(self._sizes), self._samples, len(self._sizes)
        looked_at = ((sizes, n, "the sizes of the batches"), (self._often, steps, "how often each sample was drawn"))
        for counts, trials, what in looked_at:
            if not _binomial(counts, trials, self._rate):
                raise PatebenchError(
                    f"{what} can not come from Poisson sampling at a rate of {self._rate:g}, which the account assumes;"
                    " use PoissonSampler"
                )


def _binomial(counts: Tensor, trials: int, rate: float) -> bool:
    """Whether independent counts can be binomial: their mean, and how far they are from it on average."""
    expected, variance = trials * rate, trials * rate * (1 - rate)
    if rate == 1:
        return bool((counts == trials).all())
    if len(counts) == 0 or trials == 0:
        return True
    z = float((counts.double() - expected).sum()) / math.sqrt(variance * len(counts))
    if abs(z) > _MORE and variance * len(counts) > _ENOUGH:
        return False
    if len(counts) < _ENOUGH or variance * len(counts) < _ENOUGH**2:
        return True
    spread = float(((counts.double() - expected) ** 2 / variance).mean()) - 1
    deviation = math.sqrt((2 + (1 - 6 * rate * (1 - rate)) / variance) / len(counts))
    return _FEWER < spread / deviation < _MORE
