"""What the forms of PET-DL cost: each is a number of Gaussian releases, which compose exactly.

Neighbours differ in one teacher's shard, so in everything that this one teacher says: one of n vectors is replaced.

- *A clipped vector of any sign.* Vectors of norm ≤ S differ by ≤ 2S (triangle inequality), so their sum has sensitivity
  2S. With Gaussian noise of standard deviation zS in every coordinate its release is (2/z)-GDP.
- *A clipped vector without negative entries.* For a, b ≥ 0 with ‖a‖, ‖b‖ ≤ S is ‖a − b‖² = ‖a‖² + ‖b‖² − 2⟨a, b⟩ ≤ 2S²,
  since ⟨a, b⟩ ≥ 0. The sensitivity is √2·S, the release (√2/z)-GDP. It is reached by two different unit vectors.
- *A number in [0, B].* It changes by B at most, as PET-DL's clipped losses do: B/n for their mean, and with noise of
  standard deviation zB/n each release is (1/z)-GDP.

The Gaussian mechanism is μ-GDP with μ = sensitivity/deviation (Dong, Roth, Su 2022, Theorem 2.7), T adaptive releases
of μ₁, …, μ_T together √(Σ μᵢ²)-GDP (Corollary 3.3), and μ-GDP gives (ε, δ) exactly (Balle & Wang 2018, Theorem 8).
"""

import math
from enum import Enum

from patebench.accounting.independent import gaussian_dp
from patebench.accounting.searches import edge

#: A few roundings of μ, which are to make it larger.
_ROUNDING = 1e-14


class Release(Enum):
    """What one release adds up; its value is the square of the sensitivity where the clip is 1."""

    VECTOR = 4.0  # of any sign
    NON_NEGATIVE = 2.0  # vectors without a negative entry
    LOSS = 1.0  # a number from 0 to the clip


def mu(noise: float, releases: dict[Release, int]) -> float:
    """The μ of so many releases of each sort together, all with noise of `noise` clips; ∞ without noise."""
    together = sum(release.value * count for release, count in releases.items())
    if together == 0:
        return 0.0
    return math.sqrt(together) / noise * (1 + _ROUNDING) if noise > 0 else math.inf


def epsilon(noise: float, releases: dict[Release, int], delta: float) -> float:
    """The ε at δ of all releases, rounded up."""
    return gaussian_dp(mu(noise, releases), delta)


def noise_for(target: float, releases: dict[Release, int], delta: float) -> float:
    """The least noise, in clips, whose ε at δ is at most `target`; PatebenchError where there is none."""
    return edge(lambda noise: epsilon(noise, releases, delta), target)
