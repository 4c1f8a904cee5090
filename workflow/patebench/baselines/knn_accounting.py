"""Account for labels by the nearest private records (Zhu, Yu, Chandraker, Wang 2020): a sound form, and the claim.

Neighbours are data sets of which one has a record that the other lacks. A *step* draws a Poisson subset of the records
at a rate γ, takes the k of it that are nearest to a public query, counts their labels, and releases the largest count
with noise N(0, σ₁²) (a *test*), or all counts with noise N(0, σ₂²) each (an *answer*, whose label is read off). One
step costs at most Gaussian noise σ/Δ sampled at the rate γ, Δ = 1 for a test and √2 for an answer. The sound form
composes T tests and at most A answers that are fixed beforehand (Zhu, Dong, Wang 2022, Theorem 10). What is (ε, δ)-DP
so is (2ε, (1 + e^ε) δ)-DP for replacing a record (Vadhan 2017, Lemma 2.2).
Proof: docs/explanation/proofs-systems.md, "Private-kNN".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patebench.accounting import conversion
from patebench.accounting.logspace import Array
from patebench.accounting.subsampled_gaussian import SubsampledGaussian, bound_together
from patebench.core.bound import Adjacency, Bound, Conversion, Kind, check_delta
from patebench.core.errors import PatebenchError

#: What one record changes at most, in L2 norm: the largest count of a test, and the counts of an answer.
TEST, ANSWER = 1.0, math.sqrt(2)

#: The orders that the claim is computed at: whole ones alone, where the divergence is a finite sum.
_ORDERS = np.arange(2.0, 513.0)


@dataclass(frozen=True, kw_only=True)
class KNNSettings:
    """What is asked, of whom, and with how much noise; `answers` is the most that are given, all by default."""

    rate: float
    neighbours: int
    threshold: float
    sigma1: float
    sigma2: float
    queries: int
    answers: int | None = None

    @property
    def tests(self) -> SubsampledGaussian:
        """Return the tests of all queries."""
        return SubsampledGaussian(self.sigma1 / TEST, self.rate, self.queries)

    def answered(self, answers: int) -> SubsampledGaussian:
        """Return `answers` answers, as steps."""
        return SubsampledGaussian(self.sigma2 / ANSWER, self.rate, answers)

    @property
    def most(self) -> int:
        """Return the most answers that may be given."""
        return self.queries if self.answers is None else min(self.answers, self.queries)


def sound(settings: KNNSettings, delta: float, spent: Sequence[SubsampledGaussian] = ()) -> Bound:
    """Return the bound of the module's proof, with every answer that may be given; PatebenchError if more was `spent`.

    How many were given follows from private records, so it is not what the bound is of.
    """
    stated = (settings.tests, settings.answered(settings.most))
    for what, most in zip(spent, stated, strict=False):
        if (what.noise, what.rate) != (most.noise, most.rate) or what.steps > most.steps:
            raise PatebenchError(f"what was done ({what}) costs more than what is stated ({most})")
    return bound_together(stated, delta)


def claimed(settings: KNNSettings, answered: int, delta: float) -> Bound:
    """Return the bound of the authors' code for `answered` answers, as if each test and answer had a Poisson subset of
    its own.

    Their Rényi divergences add up and are converted as Mironov 2017, Proposition 3 has it. No proof: the subsets that
    the code draws are no Poisson samples, and test and answer share one.
    """
    check_delta(delta)
    curve = _renyi(settings.tests) + _renyi(settings.answered(answered))
    epsilon = conversion.classic(_ORDERS, curve, delta)
    best = int(np.argmin(epsilon))
    return Bound(
        epsilon=float(epsilon[best]),
        delta=delta,
        queries=settings.queries,
        accountant="rdp",
        kind=Kind.CLAIMED,
        publishable=False,
        source="Zhu, Yu, Chandraker, Wang 2020: Rényi divergence of Poisson subsampling, which is not what is drawn",
        conversion=Conversion.CLASSIC,
        order=float(_ORDERS[best]),
        adjacency=Adjacency.ADD_OR_REMOVE_RECORD,
        label="Rényi, Poisson sampling",
    )


def _renyi(steps: SubsampledGaussian) -> Array:
    """Return at whole orders α, exactly, ln Σ_j C(α, j) (1 − γ)^(α − j) γ^j e^(j(j − 1)/2σ²) / (α − 1) for each step.

    Mironov, Talwar, Zhang 2019, section 3.3. ∞ without noise.
    """
    if steps.steps == 0:
        return np.zeros(len(_ORDERS))
    if steps.noise == 0:
        return np.full(len(_ORDERS), np.inf)
    moments: Array = np.array([_log_moment(steps, order) for order in _ORDERS])
    return steps.steps * moments / (_ORDERS - 1)


def _log_moment(steps: SubsampledGaussian, order: float) -> float:
    """Return the divergence of one step at `order` α, times α − 1."""
    from scipy.special import gammaln, logsumexp

    j = np.arange(order + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        outside = np.where(j == order, 0.0, (order - j) * np.log1p(-steps.rate))
    binomial = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    return float(logsumexp(binomial + outside + j * math.log(steps.rate) + j * (j - 1) / (2 * steps.noise**2)))
