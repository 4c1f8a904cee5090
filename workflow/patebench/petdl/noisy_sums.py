"""Make the noisy sums of clipped vectors that PET-DL's forms release, and account for them.

Neighbours differ in one teacher's shard, so one of n vectors is replaced. With noise of standard deviation z clips, a
release is (2/z)-GDP for clipped vectors of any sign, (√2/z)-GDP for those without negative entries, and (1/z)-GDP for
numbers in [0, B]. T adaptive releases are √(Σ μᵢ²)-GDP (Dong, Roth, Su 2022, Theorem 2.7, Corollary 3.3), and μ-GDP
gives (ε, δ) exactly (Balle & Wang 2018, Theorem 8). The audit runs `noisy_sum` itself (`audit.trained_models`). Proof:
docs/explanation/proofs-systems.md, "Sums of clipped vectors".
"""

import math
from enum import Enum

import torch
from torch import Tensor

from patebench.accounting.independent import gaussian_dp
from patebench.accounting.searches import edge

#: Relative margin by which μ is increased to cover rounding.
_ROUNDING = 1e-14


class Summand(Enum):
    """Sort of the summands of a release; its value is the square of the sensitivity at a clip of 1."""

    VECTOR = 4.0  # of any sign
    NON_NEGATIVE = 2.0  # vectors without a negative entry
    LOSS = 1.0  # a number from 0 to the clip


def mu(noise: float, releases: dict[Summand, int]) -> float:
    """Return the μ of all `releases` (sort: count) together, with noise of `noise` clips; ∞ without noise."""
    together = sum(release.value * count for release, count in releases.items())
    if together == 0:
        return 0.0
    return math.sqrt(together) / noise * (1 + _ROUNDING) if noise > 0 else math.inf


def epsilon(noise: float, releases: dict[Summand, int], delta: float) -> float:
    """Return the ε at δ of all releases, rounded up."""
    return gaussian_dp(mu(noise, releases), delta)


def noise_for(target: float, releases: dict[Summand, int], delta: float) -> float:
    """Return the least noise, in clips, with ε at δ of at most `target`; PatebenchError if there is none."""
    return edge(lambda noise: epsilon(noise, releases, delta), target)


#: Relative margin of clipped norms below the clip, larger than rounding in single precision.
_MARGIN = 1e-5


def clipped(vectors: Tensor, clip: float) -> Tensor:
    """Return vectors (…, features) scaled down to a Euclidean norm of at most `clip`; shorter ones are not scaled."""
    return vectors * factors(vectors.double().square().sum(-1, keepdim=True).sqrt(), clip).to(vectors.dtype)


def factors(norms: Tensor, clip: float) -> Tensor:
    """Return the clipping factors of vectors with these norms; 0 for a norm that is not finite, against leaks."""
    scale = (clip * (1 - _MARGIN) / norms.clamp_min(torch.finfo(norms.dtype).tiny)).clamp_max(1 - _MARGIN)
    return torch.where(norms.isfinite(), scale, 0.0)


def noisy_sum(vectors: Tensor, clip: float, noise: float, rng: torch.Generator) -> Tensor:
    """Return the sum over teachers of clipped vectors, with noise of standard deviation noise·clip.

    `vectors` is (teachers, …, features); each is clipped along the last axis.
    """
    vectors = torch.where(vectors.isfinite(), vectors, 0.0)
    return with_noise(clipped(vectors, clip).sum(0), clip, noise, rng)


def with_noise(total: Tensor, clip: float, noise: float, rng: torch.Generator) -> Tensor:
    """Add Gaussian noise of standard deviation noise·clip, drawn on the CPU, to a sum of clipped vectors."""
    return total + noise * clip * torch.randn(total.shape, generator=rng).to(total.device, total.dtype)
