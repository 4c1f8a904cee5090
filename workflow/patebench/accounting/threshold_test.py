"""Costs of Confident-GNMax (Scalable PATE, Papernot et al. 2018, Algorithm 1): a test before each answer.

A query is answered by GNMax(σ₂) only if max count + N(0, σ₁²) ≥ threshold; one vote moves the largest count by at most
1. Whether a query was answered is itself an outcome, so the test is paid for with every query, answered or not.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from patebench.accounting import discrete_gaussian, exact, independent, rdp
from patebench.accounting.logspace import Array, log_expm1, softplus


@dataclass(frozen=True)
class ThresholdTest:
    """The test's threshold and noise, and the noise of the answers.

    Curves are Rényi divergences per query asked. Those that depend on data take one row per query: the largest count,
    and `log_q`, which bounds ln Pr[the answer is not the plurality] (see `plurality.gaussian_log_q`).
    """

    threshold: float
    sigma1: float
    sigma2: float

    def log_answered(self, top: ArrayLike) -> tuple[Array, Array]:
        """ln Pr[answered] and ln Pr[no answer] of queries with these largest counts."""
        with np.errstate(divide="ignore", invalid="ignore"):
            above = (np.asarray(top, dtype=np.float64) - self.threshold) / self.sigma1
        above = np.where(np.isnan(above), 0.0 if self.sigma1 > 0 else np.inf, above)
        return log_ndtr(above), log_ndtr(-above)

    def mu(self, queries: int) -> float:
        """μ of Gaussian DP: √(T/σ₁² + 2T/σ₂²).

        All that is released follows from noisy maxima and noisy counts of all T queries, which change by 1 and √2.
        """
        test = math.sqrt(queries) / self.sigma1 if self.sigma1 > 0 else math.inf
        return math.hypot(test, independent.gnmax_mu(self.sigma2, queries))

    def discrete(self, queries: int, delta: float) -> float:
        """ε with discrete Gaussian noise, where as many cells move by one (see `discrete_gaussian`)."""
        return discrete_gaussian.several([(self.sigma1, queries), (self.sigma2, 2 * queries)], delta)

    def test(self, orders: Array) -> Array:
        """α/(2σ₁²), what the test costs at worst (Mironov 2017, Corollary 3)."""
        return rdp.gaussian(math.sqrt(2) * self.sigma1, orders)

    def data_independent(self, orders: Array) -> Array:
        """α/(2σ₁²) + α/σ₂², for any query may be answered (Mironov 2017, Corollary 3; Scalable PATE, Proposition 8)."""
        result: Array = self.test(orders) + rdp.gaussian(self.sigma2, orders)
        return result

    def data_dependent(self, rows: Array, orders: Array) -> Array:
        """Test and answer together (queries × orders), or the data-independent curve where that is smaller.

        With s = Pr[answered], s′ that of the neighbour and D the bound of Theorem 6 on the answer, the divergence is at
        most ln((1−s)^α (1−s′)^{1−α} + s^α s′^{1−α} e^{(α−1)D})/(α−1), here for the worst s′ that one vote can lead to.
        """
        top, log_q = rows.T
        answer = log_expm1((orders - 1) * rdp.gaussian_data_dependent(log_q, self.sigma2, orders))
        log_p = np.stack(self.log_answered(top), axis=1)
        once = np.ones(log_p.shape, dtype=np.int64)
        worst = np.zeros_like(answer)
        for change in (-1, 0, 1):
            log_p_neighbour = np.stack(self.log_answered(top + change), axis=1)
            test = log_expm1((orders - 1) * exact.divergence(log_p, log_p_neighbour, once, orders))
            given = _weight(log_p[:, :1], log_p_neighbour[:, :1], orders)
            worst = np.maximum(worst, softplus(np.logaddexp(test, given + answer)) / (orders - 1))
        return np.minimum(worst, self.data_independent(orders))

    def expected(self, rows: Array, orders: Array) -> Array:
        """Theorem 6 for the test, and for the answer times Pr[answered] (queries × orders): the official tables' sum.

        It is what to expect before it is known which queries get answers. Rényi divergences do not average, so it
        bounds nothing.
        """
        top, log_q = rows.T
        answered, unanswered = self.log_answered(top)
        asked = rdp.gaussian_data_dependent(np.minimum(answered, unanswered), math.sqrt(2) * self.sigma1, orders)
        given = rdp.gaussian_data_dependent(log_q, self.sigma2, orders)
        result: Array = asked + np.exp(answered)[:, None] * given
        return result


def _weight(log_s: Array, log_s_neighbour: Array, orders: Array) -> Array:
    """ln(s^α s′^{1−α}) from ln s and ln s′; −∞ where s = 0."""
    with np.errstate(invalid="ignore"):
        result: Array = np.where(log_s > -np.inf, log_s + (orders - 1) * (log_s - log_s_neighbour), -np.inf)
    return result
