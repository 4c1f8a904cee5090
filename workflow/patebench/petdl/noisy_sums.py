"""Noisy sums of clipped vectors, which PET-DL's forms release, and their accounting in Gaussian DP (GDP).

Adjacent data sets differ in one teacher's shard, so one of n vectors is replaced. Let the noise have a standard
deviation of z times the clipping norm. A release is (2/z)-GDP for vectors of any sign, (√2/z)-GDP for vectors without
negative entries, and (1/z)-GDP for numbers from 0 to the clip. Adaptive releases that are μᵢ-GDP are √(Σ μᵢ²)-GDP
together (Dong, Roth, Su 2022, Theorem 2.7, Corollary 3.3). μ-GDP is converted to (ε, δ) exactly (Balle & Wang 2018,
Theorem 8). The audit runs `noisy_sum` itself (`stages/petdl_audit.py`). Proof: docs/explanation/proofs-systems.md,
"Sums of clipped vectors".
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
    """Kind of vector that each teacher contributes to a noisy sum; it determines the sensitivity of the sum.

    The enum value is the squared L2 sensitivity for clipping norm 1 if the vector of one teacher is replaced.
    """

    VECTOR = 4.0  # of any sign
    NON_NEGATIVE = 2.0  # vectors without a negative entry
    LOSS = 1.0  # a number from 0 to the clip


def mu(noise: float, releases: dict[Summand, int]) -> float:
    """Return the GDP parameter μ of all noisy sums in `releases` together; ∞ without noise.

    `releases` maps each kind of vector to the number of sums of this kind. `noise` is the standard deviation divided by
    the clipping norm.
    """
    squared_sensitivity = sum(release.value * count for release, count in releases.items())
    if squared_sensitivity == 0:
        return 0.0
    return math.sqrt(squared_sensitivity) / noise * (1 + _ROUNDING) if noise > 0 else math.inf


def epsilon(noise: float, releases: dict[Summand, int], delta: float) -> float:
    """Return the ε of all noisy sums together at `delta`, rounded up.

    `noise` is the standard deviation divided by the clipping norm. `releases` maps kinds of vector to numbers of sums.
    """
    return gaussian_dp(mu(noise, releases), delta)


def noise_for(target: float, releases: dict[Summand, int], delta: float) -> float:
    """Return the least `noise` for which `epsilon(noise, releases, delta)` is at most `target`.

    Raises PatebenchError if no noise reaches the target.
    """
    return edge(lambda noise: epsilon(noise, releases, delta), target)


#: Relative margin by which clipped norms stay below the clip; it exceeds the rounding of vectors in single precision.
_MARGIN = 1e-5


def clipped(vectors: Tensor, clip: float) -> Tensor:
    """Return `vectors` (…, features), each scaled down to a Euclidean norm of at most `clip`, in double precision."""
    vectors = vectors.double()
    return vectors * factors(vectors.square().sum(-1, keepdim=True).sqrt(), clip)


def factors(norms: Tensor, clip: float) -> Tensor:
    """Return factors, in the shape of `norms`, that scale vectors with these norms to norms of at most `clip`.

    The factor is 0 for a norm that is not finite.
    """
    scale = (clip * (1 - _MARGIN) / norms.clamp_min(torch.finfo(norms.dtype).tiny)).clamp_max(1 - _MARGIN)
    return torch.where(norms.isfinite(), scale, 0.0)


def noisy_sum(vectors: Tensor, clip: float, noise: float, rng: torch.Generator) -> Tensor:
    """Return the sum over teachers of `vectors` (teachers, …, features), clipped to norm `clip`, plus Gaussian noise.

    Norms are over the last axis. The noise has the standard deviation `noise`·`clip` and is drawn from `rng`.
    """
    finite = torch.where(vectors.isfinite(), vectors, 0.0)
    return with_noise(clipped(finite, clip).sum(0), clip, noise, rng).to(vectors.dtype)


def with_noise(total: Tensor, clip: float, noise: float, rng: torch.Generator) -> Tensor:
    """Return `total`, a sum of clipped vectors, plus Gaussian noise of standard deviation `noise`·`clip` from `rng`.

    `total` and the result have double precision. In single precision, noise would never exceed 5.8 standard deviations.
    The last digits of a double could reveal the sum, so the caller must round the result to single precision before
    use.
    """
    return total + noise * clip * torch.randn(total.shape, generator=rng, dtype=torch.float64).to(total.device)
