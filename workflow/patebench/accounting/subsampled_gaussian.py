"""Steps of the Poisson-subsampled Gaussian mechanism, which DP-SGD is made of (Abadi et al. 2016).

In each step every record takes part with the same probability, independently of all others; the sum of what takes part
gets Gaussian noise. Two data sets are neighbours if one has a record that the other lacks, which changes the sum by a
vector of norm 1 at most (in units of the clipping norm). Nothing here depends on the records or on their number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from patebench.accounting.searches import bisect, geometric
from patebench.core.bound import Adjacency, Bound, Kind, check_delta
from patebench.core.errors import PatebenchError

#: What dp-accounting's convolutions may be wrong by is small beside this share of δ, from this δ on.
_SLACK, LEAST_DELTA = 1e-3, 1e-8

#: The grid of privacy losses. All rounding is upward, so a finer one only takes longer to give a little less.
_GRID = 1e-3

#: Noise is looked for between these; with less than the first, ε would be so large that it says nothing.
_LEAST_NOISE, _MOST_NOISE = 0.3, 1e5

#: How near to the least noise a search ends, relatively.
_NEAR = 1e-4

#: Accountants by name, as tables head them, and the theorems: without sampling, and with it.
_GDP = ("gdp", "Gaussian DP", "Dong, Roth, Su 2022, Corollary 3.3; ε(δ) exactly by Balle & Wang 2018, Theorem 8")
_PLD = (
    "pld",
    "PLD, Poisson sampling",
    "Abadi et al. 2016, section 3.1, for the step; Zhu, Dong, Wang 2022, Theorem 11, for the pairs that dominate it, "
    "in both directions; composed as privacy loss distributions, rounded up (Doroshenko et al. 2022)",
)


@dataclass(frozen=True)
class SubsampledGaussian:
    """So many steps, each with noise of standard deviation `noise` times the clipping norm, and sampled at `rate`."""

    noise: float
    rate: float
    steps: int

    def __post_init__(self) -> None:
        if not self.noise >= 0:
            raise PatebenchError(f"noise = {self.noise}; a noise multiplier of at least 0 is needed")
        if not 0 < self.rate <= 1:
            raise PatebenchError(f"rate = {self.rate}; a probability above 0 is needed")
        if self.steps < 0:
            raise PatebenchError(f"steps = {self.steps}; at least 0 is needed")

    def epsilon(self, delta: float) -> float:
        """An ε for which all steps together are (ε, δ)-DP under adding or removing a record, rounded up."""
        return epsilon_together([self], delta)

    def bound(self, delta: float) -> Bound:
        """The same as a record."""
        return bound_together([self], delta)


def epsilon_together(kinds: Sequence[SubsampledGaussian], delta: float) -> float:
    """An ε for which steps of several kinds are (ε, δ)-DP together under adding or removing a record, rounded up.

    How many steps there are of each kind, and in which order, is fixed beforehand. What a step asks may depend on all
    that came out before, since each is dominated by its pair whatever it asks (Zhu, Dong, Wang 2022, Theorem 10).
    """
    check_delta(delta)
    if delta < LEAST_DELTA:
        raise PatebenchError(f"δ = {delta:g}; the accountant of DP-SGD is exact enough from δ = {LEAST_DELTA:g} on")
    taken = [each for each in kinds if each.steps > 0]
    if not taken:
        return 0.0
    if any(each.noise == 0 for each in taken):
        return math.inf
    if all(each.rate == 1 for each in taken):
        from patebench.accounting.independent import gaussian_dp

        return gaussian_dp(math.sqrt(sum(each.steps / each.noise**2 for each in taken)), delta)
    return _composed(taken, delta * (1 - _SLACK))


def _composed(kinds: Sequence[SubsampledGaussian], delta: float) -> float:
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    losses = [
        from_gaussian_mechanism(
            each.noise, value_discretization_interval=_GRID, sampling_prob=each.rate, pessimistic_estimate=True
        ).self_compose(each.steps)
        for each in kinds
    ]
    return float(reduce(lambda one, other: one.compose(other), losses).get_epsilon_for_delta(delta))


def bound_together(kinds: Sequence[SubsampledGaussian], delta: float) -> Bound:
    """The same as a record; its `queries` are the steps. No noise that is drawn from a seed may be published."""
    accountant, label, source = _GDP if all(each.rate == 1 for each in kinds) else _PLD
    return Bound(
        epsilon=epsilon_together(kinds, delta),
        delta=delta,
        queries=sum(each.steps for each in kinds),
        accountant=accountant,
        kind=Kind.WORST_CASE,
        publishable=False,
        source=source,
        adjacency=Adjacency.ADD_OR_REMOVE_RECORD,
        label=label,
    )


def least_noise(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """The least noise multiplier, rounded up, with which so many steps at this rate cost at most ε at δ."""
    if not epsilon > 0:
        raise PatebenchError(f"ε = {epsilon}; a target above 0 is needed")

    def holds(noise: float) -> bool:
        return SubsampledGaussian(noise, rate, steps).epsilon(delta) <= epsilon

    safe = 1.0
    while not holds(safe):
        safe *= 2
        if safe > _MOST_NOISE:
            raise PatebenchError(f"no noise up to {_MOST_NOISE:g} gives {steps} steps an ε of {epsilon:g}")
    if safe > 1:
        return bisect(holds, safe, safe / 2, halve=geometric, near=_NEAR)
    if holds(_LEAST_NOISE):
        return _LEAST_NOISE
    return bisect(holds, 1.0, _LEAST_NOISE, halve=geometric, near=_NEAR)
