"""Accounting of steps of the Poisson-subsampled Gaussian mechanism, as in DP-SGD (Abadi et al. 2016).

In each step, every record is sampled independently with the same probability, and Gaussian noise is added to the sum
over the sample. Neighbouring data sets differ by adding or removing one record, which changes the sum by a vector of
norm at most 1, in units of the clipping norm. The bounds depend neither on the records nor on their number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from patebench.accounting.searches import bisect, geometric
from patebench.core.bound import Adjacency, Bound, Kind, check_delta
from patebench.core.errors import PatebenchError

#: Fraction of δ reserved for the error of dp-accounting's convolutions, and the least δ for which it suffices.
_SLACK, LEAST_DELTA = 1e-3, 1e-8

#: Grid step of privacy losses. Losses are rounded up, so a finer grid is slower and gives a slightly smaller ε.
_GRID = 1e-3

#: Range of noise multipliers in which `least_noise` searches. With less noise, privacy losses are too large for the
#: grid, so ε is computed without amplification by sampling. Such an ε is too large to be useful anyway.
_LEAST_NOISE, _MOST_NOISE = 0.3, 1e5

#: Relative tolerance of the search for the least noise.
_NEAR = 1e-4

#: Name, column head and theorem of the accountants without and with sampling.
_GDP = ("gdp", "Gaussian DP", "Dong, Roth, Su 2022, Corollary 3.3; ε(δ) exactly by Balle & Wang 2018, Theorem 8")
_PLD = (
    "pld",
    "PLD, Poisson sampling",
    "Abadi et al. 2016, section 3.1, for the step; Zhu, Dong, Wang 2022, Theorem 11, for the pairs that dominate it, "
    "in both directions; composed as privacy loss distributions, rounded up (Doroshenko et al. 2022)",
)


@dataclass(frozen=True)
class SubsampledGaussian:
    """Equal steps of the Poisson-subsampled Gaussian mechanism.

    Parameters
    ----------
    noise : noise multiplier, the standard deviation of the noise in units of the clipping norm
    rate : sampling probability of a record in a step
    steps : number of steps
    """

    noise: float
    rate: float
    steps: int

    def __post_init__(self) -> None:
        if not self.noise >= 0:
            raise PatebenchError(f"noise = {self.noise} is out of range; give a noise multiplier of at least 0")
        if not 0 < self.rate <= 1:
            raise PatebenchError(f"rate = {self.rate} is out of range; give a probability above 0 and at most 1")
        if self.steps < 0:
            raise PatebenchError(f"steps = {self.steps} is out of range; give a number of steps of at least 0")

    def epsilon(self, delta: float) -> float:
        """Return an ε, rounded up, for which all steps together are (ε, δ)-DP for adding or removing a record."""
        return epsilon_together([self], delta)

    def bound(self, delta: float) -> Bound:
        """Return ε at `delta` of all steps together as a bound record; see `bound_together`."""
        return bound_together([self], delta)


def epsilon_together(kinds: Sequence[SubsampledGaussian], delta: float) -> float:
    """Return an ε, rounded up, for which all steps in `kinds` together are (ε, δ)-DP for adding or removing a record.

    Each item of `kinds` stands for several equal steps. The numbers and the order of steps must be fixed beforehand.
    The query of a step may depend on all earlier outputs (Zhu, Dong, Wang 2022, Theorem 10).
    """
    check_delta(delta)
    used = [kind for kind in kinds if kind.steps > 0]
    if not used:
        return 0.0
    if any(kind.noise == 0 for kind in used):
        return math.inf
    if not _amplified(used):
        from patebench.accounting.independent import gaussian_dp

        # A bound without sampling also holds with it, as hockey-stick divergences are jointly convex.
        return gaussian_dp(math.sqrt(sum(kind.steps / kind.noise**2 for kind in used)), delta)
    if delta < LEAST_DELTA:
        raise PatebenchError(
            f"δ = {delta:g} is too small for the accountant of DP-SGD; choose a δ of at least {LEAST_DELTA:g}"
        )
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    losses = [
        from_gaussian_mechanism(
            kind.noise, value_discretization_interval=_GRID, sampling_prob=kind.rate, pessimistic_estimate=True
        ).self_compose(kind.steps)
        for kind in used
    ]
    composed = reduce(lambda one, other: one.compose(other), losses)
    return float(composed.get_epsilon_for_delta(delta * (1 - _SLACK)))


def _amplified(kinds: Sequence[SubsampledGaussian]) -> bool:
    """Return True if ε is computed with amplification by sampling, which needs noise multipliers ≥ `_LEAST_NOISE`."""
    return any(kind.rate < 1 for kind in kinds) and all(kind.noise >= _LEAST_NOISE for kind in kinds)


def bound_together(kinds: Sequence[SubsampledGaussian], delta: float) -> Bound:
    """Return the result of `epsilon_together` as a bound record, whose field `queries` is the number of all steps.

    The record is marked as not publishable, since the noise of the steps is seeded.
    """
    accountant, label, source = _PLD if _amplified(kinds) else _GDP
    return Bound(
        epsilon=epsilon_together(kinds, delta),
        delta=delta,
        queries=sum(kind.steps for kind in kinds),
        accountant=accountant,
        kind=Kind.WORST_CASE,
        publishable=False,
        source=source,
        adjacency=Adjacency.ADD_OR_REMOVE_RECORD,
        label=label,
    )


def least_noise(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """Return the least noise multiplier, rounded up, at which `steps` steps with sampling rate `rate` are (ε, δ)-DP."""
    if not epsilon > 0:
        raise PatebenchError(f"the target ε = {epsilon} is out of range; give an ε above 0")

    def holds(noise: float) -> bool:
        return SubsampledGaussian(noise, rate, steps).epsilon(delta) <= epsilon

    safe = 1.0
    while not holds(safe):
        safe *= 2
        if safe > _MOST_NOISE:
            raise PatebenchError(
                f"{steps} steps cost more than ε = {epsilon:g} even with a noise multiplier of {_MOST_NOISE:g}; raise "
                "the target ε, or use fewer steps"
            )
    if safe > 1:
        return bisect(holds, safe, safe / 2, halve=geometric, near=_NEAR)
    if holds(_LEAST_NOISE):
        return _LEAST_NOISE
    return bisect(holds, 1.0, _LEAST_NOISE, halve=geometric, near=_NEAR)
