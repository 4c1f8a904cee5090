"""Vectors clipped to a norm, and their sum with Gaussian noise: the one place where the sound forms protect.

The audit runs `noisy_sum` itself (`audit.gaussian_sums`).
"""

import torch
from torch import Tensor

#: Clipped norms stay this far below the clip, relatively: more than rounding in single precision can add.
_MARGIN = 1e-5


def clipped(vectors: Tensor, clip: float) -> Tensor:
    """Vectors (…, features) scaled down to a Euclidean norm of at most `clip`; a shorter one stays as it is."""
    return vectors * factors(vectors.double().square().sum(-1, keepdim=True).sqrt(), clip).to(vectors.dtype)


def factors(norms: Tensor, clip: float) -> Tensor:
    """What vectors of these norms are multiplied by; 0 where a norm is no number, so that nothing of it is told."""
    scale = (clip * (1 - _MARGIN) / norms.clamp_min(torch.finfo(norms.dtype).tiny)).clamp_max(1 - _MARGIN)
    return torch.where(norms.isfinite(), scale, 0.0)


def noisy_sum(vectors: Tensor, clip: float, noise: float, rng: torch.Generator) -> Tensor:
    """The sum over the first axis, teachers, of clipped vectors, with noise of standard deviation noise·clip.

    `vectors` is (teachers, …, features); each is clipped along the last axis.
    """
    vectors = torch.where(vectors.isfinite(), vectors, 0.0)
    return with_noise(clipped(vectors, clip).sum(0), clip, noise, rng)


def with_noise(total: Tensor, clip: float, noise: float, rng: torch.Generator) -> Tensor:
    """A sum of clipped vectors with Gaussian noise of standard deviation noise·clip on each entry, drawn on the CPU."""
    return total + noise * clip * torch.randn(total.shape, generator=rng).to(total.device, total.dtype)
