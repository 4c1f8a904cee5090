"""Account for labels by the nearest private records (Zhu, Yu, Chandraker, Wang 2020): a sound form, and the claim.

Neighbours are data sets of which one has a record that the other lacks. A *step* draws a Poisson subset of the records
at a rate γ, takes its k records nearest to a public query, and counts their labels. It releases the largest count with
noise N(0, σ₁²) (a *test*), or all counts with noise N(0, σ₂²) each (an *answer*, whose largest count is the label). One
step costs at most Gaussian noise σ/Δ sampled at the rate γ, with Δ = 1 for a test and √2 for an answer. The sound form
composes T tests and at most A answers that are fixed beforehand (Zhu, Dong, Wang 2022, Theorem 10). An (ε, δ)-DP
release is (2ε, (1 + e^ε) δ)-DP for replacing a record (Vadhan 2017, Lemma 2.2). Proof:
docs/explanation/proofs-systems.md, "Private-kNN".
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

#: L2 sensitivity to one record, of the largest count in a test and of the counts in an answer.
TEST, ANSWER = 1.0, math.sqrt(2)

#: Rényi orders of the claim: only integers, where the divergence is a finite sum.
_ORDERS = np.arange(2.0, 513.0)


@dataclass(frozen=True, kw_only=True)
class KNNSettings:
    """Sampling, queries and noise of Private-kNN; `answers` limits the answers, by default to one per query."""

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
        """Return the steps of `answers` answers."""
        return SubsampledGaussian(self.sigma2 / ANSWER, self.rate, answers)

    @property
    def most(self) -> int:
        """Return the largest number of answers."""
        return self.queries if self.answers is None else min(self.answers, self.queries)


def sound(settings: KNNSettings, delta: float, spent: Sequence[SubsampledGaussian] = ()) -> Bound:
    """Return the bound of the module's proof, with every answer that may be given; PatebenchError if more was `spent`.

    The number of answers given depends on private records, so the bound does not use it.
    """
    stated = (settings.tests, settings.answered(settings.most))
    for done, most in zip(spent, stated, strict=False):
        if (done.noise, done.rate) != (most.noise, most.rate) or done.steps > most.steps:
            raise PatebenchError(f"the steps taken ({done}) cost more than the stated ones ({most})")
    return bound_together(stated, delta)


def claimed(settings: KNNSettings, answered: int, delta: float) -> Bound:
    """Return the bound of the authors' code for `answered` answers.

    The code assumes a separate Poisson subset for each test and answer. Their Rényi divergences add up and are
    converted by Mironov 2017, Proposition 3. This is not a proof: the code does not draw Poisson samples, and test and
    answer share one subset.
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
    """Return ln Σ_j C(α, j) (1 − γ)^(α − j) γ^j e^(j(j − 1)/2σ²) / (α − 1) per step, exact at integer orders α.

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
