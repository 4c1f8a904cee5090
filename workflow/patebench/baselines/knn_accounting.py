"""Account for Private-kNN (Zhu, Yu, Chandraker, Wang 2020): the bound of its sound form, and the published claim.

Adjacent data sets differ by adding or removing one record. Every step of Private-kNN draws a Poisson subset of the
records at a rate γ. It selects the k records of the subset that are nearest to a public query, and counts their labels.
There are two kinds of steps:

- A *test* releases the largest count with noise N(0, σ₁²). Its L2 sensitivity is 1.
- An *answer* releases all counts with noise N(0, σ₂²) each; the label is the class with the largest noisy count. The L2
  sensitivity of the counts is √2.

A step costs at most as much as a Gaussian mechanism with noise multiplier σ₁ (test) or σ₂/√2 (answer), subsampled at
the rate γ.

The sound form composes T tests and at most A answers, with T and A fixed beforehand (Zhu, Dong, Wang 2022, Theorem 10).
An (ε, δ)-DP release is (2ε, (1 + e^ε) δ)-DP for replacing a record (Vadhan 2017, Lemma 2.2). Proof:
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

#: L2 sensitivity, to adding or removing one record, of the largest count (a test) and of all counts (an answer).
TEST, ANSWER = 1.0, math.sqrt(2)

#: Rényi orders of the claimed bound; at integers the divergence is a finite sum.
_ORDERS = np.arange(2.0, 513.0)


@dataclass(frozen=True, kw_only=True)
class KNNSettings:
    """Settings of Private-kNN, which labels public samples (queries) by votes of the private records nearest to them.

    Parameters
    ----------
    rate : sampling rate of the subset of records that is drawn for a test or an answer
    neighbours : number of nearest records of the subset that vote
    threshold : number that the largest vote count plus noise N(0, σ₁²) must exceed for a query to pass its test
    sigma1 : σ₁, standard deviation of the noise of a test
    sigma2 : σ₂, standard deviation of the noise that an answer adds to each count
    queries : number of queries
    answers : maximum number of answered queries; if None, every query that passes its test is answered
    """

    rate: float
    neighbours: int
    threshold: float
    sigma1: float
    sigma2: float
    queries: int
    answers: int | None = None

    @property
    def tests(self) -> SubsampledGaussian:
        """Return the mechanism that makes all tests: the subsampled Gaussian mechanism, with one step per query.

        The noise multiplier is `sigma1`/Δ, where Δ = `TEST` is the L2 sensitivity of the largest vote count.
        """
        return SubsampledGaussian(self.sigma1 / TEST, self.rate, self.queries)

    def answered(self, answers: int) -> SubsampledGaussian:
        """Return the mechanism that releases `answers` answers: the subsampled Gaussian mechanism, one step per answer.

        The noise multiplier is `sigma2`/Δ, where Δ = `ANSWER` is the L2 sensitivity of the vote counts of a query.
        """
        return SubsampledGaussian(self.sigma2 / ANSWER, self.rate, answers)

    @property
    def most(self) -> int:
        """Return the maximum number of answered queries: the smaller of `answers` (if not None) and `queries`."""
        return self.queries if self.answers is None else min(self.answers, self.queries)


def sound(settings: KNNSettings, delta: float, steps_taken: Sequence[SubsampledGaussian] = ()) -> Bound:
    """Return a proven bound on the ε of Private-kNN at `delta`, for all tests and the maximum number of answers.

    The bound holds for `sound_labels`, which draws a new Poisson subset for each test and answer. It does not use the
    number of queries that were answered, which is private.

    `steps_taken` are the mechanisms for tests and for answers that `sound_labels` returned; by default, nothing is
    checked. PatebenchError is raised if a mechanism in `steps_taken` has other noise or another sampling rate than
    `settings`, or more steps than the bound covers.
    """
    stated = (settings.tests, settings.answered(settings.most))
    for taken, assumed in zip(steps_taken, stated, strict=False):
        if (taken.noise, taken.rate) != (assumed.noise, assumed.rate) or taken.steps > assumed.steps:
            raise PatebenchError(
                f"the labels were computed with the noisy steps {taken}, but the bound assumes {assumed}; use the same"
                " KNNSettings for both"
            )
    return bound_together(stated, delta)


def claimed(settings: KNNSettings, answered: int, delta: float) -> Bound:
    """Return the ε at `delta` that the authors' code states if `answered` queries are answered; it is not proven.

    The statement assumes a separate Poisson subset per test and per answer. The Rényi divergences of all tests and
    answers are added up, and the sum is converted by Mironov 2017, Proposition 3. However, the authors' code draws
    subsets of a fixed size, and uses one subset for a test and its answer.
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
    """Return the Rényi divergence of the whole mechanism `steps` at each order in `_ORDERS`."""
    if steps.steps == 0:
        return np.zeros(len(_ORDERS))
    if steps.noise == 0:
        return np.full(len(_ORDERS), np.inf)
    moments: Array = np.array([_log_moment(steps, order) for order in _ORDERS])
    return steps.steps * moments / (_ORDERS - 1)


def _log_moment(steps: SubsampledGaussian, order: float) -> float:
    """Return (α − 1) times the Rényi divergence of one step of the mechanism `steps` at α = `order`."""
    from scipy.special import gammaln, logsumexp

    # ln Σ_j C(α, j) (1 − γ)^(α − j) γ^j e^(j(j − 1)/2σ²) for rate γ, noise σ and order α, exact at integer orders
    # (Mironov, Talwar, Zhang 2019, Section 3.3)
    j = np.arange(order + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        outside = np.where(j == order, 0.0, (order - j) * np.log1p(-steps.rate))
    binomial = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    return float(logsumexp(binomial + outside + j * math.log(steps.rate) + j * (j - 1) / (2 * steps.noise**2)))
