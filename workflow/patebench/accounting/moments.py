"""The moments accountant of PATE 2017 (Papernot et al., *Semi-supervised knowledge transfer*) for LNMax.

LNMax(γ) releases argmax(counts + Lap(1/γ)); one query is 2γ-DP. α(l) is the l-th log moment of the privacy loss, so
α(l)/l is a Rényi divergence of order l + 1, in the direction D(M(D) ‖ M(D′)) with D the data at hand.
"""

import numpy as np
from numpy.typing import ArrayLike

from patebench.accounting.logspace import LEAST, Array, log_two_outcomes

#: The moments that the paper's analysis tries.
PUBLISHED = np.arange(1.0, 9.0)


def data_independent(gamma: float, moments: ArrayLike) -> Array:
    """α(l) ≤ min(2γ²l(l+1), 2γl): PATE 2017, Theorem 3, and 2γ-DP itself."""
    moments = np.asarray(moments, dtype=np.float64)
    with np.errstate(over="ignore"):
        quadratic = np.maximum(2 * gamma * gamma * moments * (moments + 1), LEAST)
        result: Array = np.minimum(quadratic, 2 * gamma * moments)
    return result


def data_dependent(log_q: Array, gamma: float, moments: ArrayLike) -> Array:
    """α(l) per query (queries × moments): PATE 2017, Theorem 1, or the data-independent bound where that is smaller.

    `log_q` bounds ln Pr[M ≠ j*] from above, per query (see `plurality.laplace_log_q`). The theorem needs
    q ≤ (e^{2γ}−1)/(e^{4γ}−1) = 1/(e^{2γ}+1); where that fails, the data-independent bound holds.
    """
    moments = np.asarray(moments, dtype=np.float64)
    result = np.tile(data_independent(gamma, moments), (len(log_q), 1))
    applies = log_q <= -np.logaddexp(0.0, 2 * gamma)
    if np.all(applies):
        return np.minimum(result, _theorem(log_q[:, None], gamma, moments), out=result)
    if np.any(applies):
        result[applies] = np.minimum(result[applies], _theorem(log_q[applies, None], gamma, moments))
    return result


def _theorem(log_q: Array, gamma: float, moments: Array) -> Array:
    """PATE 2017, Theorem 1, where it applies."""
    return log_two_outcomes(log_q, np.minimum(log_q + 2 * gamma, 0.0), 2 * gamma, moments)
