"""Test whether batches can come from Poisson sampling at the stated rate.

A sample is drawn if it is in a batch. Five statistics have a known distribution under Poisson sampling:

- the number of all draws, which is the sum of the batch sizes;
- the variance of the batch sizes;
- the variance of the number of draws per sample;
- the number of joint draws, in which a batch contains both samples of a pair;
- the number of stale draws, in which a batch contains a sample that has not been drawn for a long time.

For joint draws, all samples are divided into pairs. After 1, 2, 4, 8, … batches they are paired again, if possible with
a sample that was in the same batches so far. For stale draws, the samples are ordered by the time of their last draw; a
draw is stale if the sample is in the half with the earlier draws.

The three numbers of draws are binomial, and their p-values are exact. The p-values of the two variances are upper
bounds (Chernoff 1952). Derivation: docs/explanation/proofs-systems.md, "Tests of Poisson sampling".
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

#: Maximum probability that the tests together reject batches that do come from Poisson sampling. Others can see that
#: batches are rejected, so the δ of a run grows by e^ε times this probability.
ALPHA = 1e-12

#: Number of two-sided tests that share `ALPHA`.
_TESTS = 5

#: Centres of the squared deviations in the test for too small a variance: differences from the expected count, in
#: standard deviations.
_CENTRES = np.linspace(-2, 2, 9)

#: Multiplier of the hash of a sample's history (Knuth's MMIX generator).
_MULTIPLIER = np.uint64(6364136223846793005)


class SamplingCheck:
    """Statistics of batches, to test whether they can come from Poisson sampling of `samples` samples at `rate`."""

    def __init__(self, rate: float, samples: int) -> None:
        self._rate, self._samples = rate, samples
        self._sizes: list[int] = []
        self._draws_per_sample = np.zeros(samples, dtype=np.int64)
        self._history = np.zeros(samples, dtype=np.uint64)
        self._pairs = pairs_by_history(self._history)
        self._least_recent = np.arange(samples)
        self._joint_draws = self._stale_draws = 0

    @property
    def steps(self) -> int:
        """Return the number of batches added so far."""
        return len(self._sizes)

    def add(self, positions: NDArray[np.int64]) -> None:
        """Add one batch to the statistics: the samples at `positions` (batch,)."""
        self._sizes.append(len(positions))
        if self._rate == 1:
            return
        drawn = np.zeros(self._samples, dtype=bool)
        drawn[positions] = True
        first, second = self._pairs
        self._joint_draws += int(np.sum(drawn[first] & drawn[second]))
        in_order = drawn[self._least_recent]
        self._stale_draws += int(np.sum(in_order[: self._samples // 2]))
        self._least_recent = np.concatenate([self._least_recent[~in_order], self._least_recent[in_order]])
        self._draws_per_sample[positions] += 1
        self._history[positions] = self._history[positions] * _MULTIPLIER + np.uint64(self.steps)
        if self.steps & (self.steps - 1) == 0:  # a power of two
            self._pairs = pairs_by_history(self._history)

    def failed(self) -> str | None:
        """Return the name of a statistic that contradicts Poisson sampling at the stated rate, or None if none does."""
        if self._rate == 1:
            return None if all(size == self._samples for size in self._sizes) else "the sizes of the batches"
        return next((statistic for statistic, p_value in self._p_values() if p_value * _TESTS < ALPHA), None)

    def _p_values(self) -> Iterator[tuple[str, float]]:
        q, n, steps, half = self._rate, self._samples, self.steps, self._samples // 2
        sizes = np.array(self._sizes, dtype=np.int64)
        yield "the numbers of samples drawn", _binomial_p_value(int(sizes.sum()), n * steps, q)
        yield "the sizes of the batches", _variance_p_value(sizes, n, q)
        yield "the numbers of draws of each sample", _variance_p_value(self._draws_per_sample, steps, q)
        yield "the numbers of joint draws of two samples", _binomial_p_value(self._joint_draws, half * steps, q * q)
        yield "the intervals between draws of a sample", _binomial_p_value(self._stale_draws, half * steps, q)


def pairs_by_history(history: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Divide the samples into pairs; return the positions of all first and of all second samples, (pairs,) each.

    `history` (samples,) contains for each sample a hash of the batches that contained it. Samples with the same history
    are paired if possible. If the number of samples is odd, one sample is in no pair.
    """
    order = np.argsort(history, kind="stable")
    if len(order) < 2:
        return order[:0], order[:0]
    ordered, places = history[order], np.arange(len(order))
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    within = places - np.maximum.accumulate(np.where(new, places, 0))
    first = np.flatnonzero((within[:-1] % 2 == 0) & ~new[1:])
    rest = np.delete(order, np.concatenate([first, first + 1]))
    rest = rest[: len(rest) // 2 * 2]
    return np.concatenate([order[first], rest[::2]]), np.concatenate([order[first + 1], rest[1::2]])


def _binomial_p_value(successes: int, trials: int, probability: float) -> float:
    """Return the two-sided p-value of this number of `successes` in `trials` trials of this `probability`."""
    from scipy.stats import binom

    few, many = binom.cdf(successes, trials, probability), binom.sf(successes - 1, trials, probability)
    return min(1.0, 2 * float(min(few, many)))


def _variance_p_value(counts: NDArray[np.int64], trials: int, probability: float) -> float:
    """Return an upper bound on the two-sided p-value of the variance of `counts` (counts,).

    Under the null hypothesis, counts are independent and binomial, with `trials` trials of this `probability`.
    """
    from scipy.stats import binom

    if len(counts) == 0 or trials == 0:
        return 1.0
    k = np.arange(trials + 1)
    log_p, variance = binom.logpmf(k, trials, probability), trials * probability * (1 - probability)

    def log_tail(centre: float, sign: int) -> float:
        excess = (k - centre) ** 2 - np.mean((counts - centre) ** 2)
        return len(counts) * _least_log_moment(log_p, sign * excess / variance)

    # The mean count may differ from the expected count. The test for too small a variance therefore tries several
    # centres of the deviations, with a union bound over the centres.
    centres = trials * probability + math.sqrt(variance) * _CENTRES
    few = math.log(len(centres)) + min(log_tail(centre, -1) for centre in centres)
    return min(1.0, 2 * math.exp(min(0.0, few, log_tail(trials * probability, 1))))


def _least_log_moment(log_p: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Return the minimum over θ > 0 of ln E[e^{θV}], where V has the `values` with log-probabilities `log_p`."""
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    # n times the minimum over θ > 0 of ln E[e^{θV}] bounds ln Pr[mean of n draws of V ≥ 0] (Chernoff).
    def log_moment(log_theta: float) -> float:
        return float(logsumexp(log_p + math.exp(log_theta) * values))

    return float(minimize_scalar(log_moment, bounds=(-15, 25), options={"xatol": 1e-3}).fun)
