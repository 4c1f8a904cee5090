"""How likely a noisy plurality is not the true one: the q from which every data-dependent theorem of PATE starts."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from patebench.accounting.logspace import Array, logsumexp, rowwise

#: Stands for what is larger still, so that ∞ − ∞ never arises; it rounds q up.
_LARGE = 1e290

#: Up to here e⁻ˣ needs no log space.
_PLAIN = 600.0


def gaps(counts: NDArray[np.integer]) -> NDArray[np.integer]:
    """How far each class is behind the plurality, queries × (classes − 1), the plurality itself left out.

    Rows are sorted, so whatever follows cannot depend on the order of the classes.
    """
    ordered = np.sort(counts, axis=1)
    behind: NDArray[np.integer] = ordered[:, -1:] - ordered[:, -2::-1]
    return behind


def laplace_log_q(counts: NDArray[np.integer], gamma: float) -> Array:
    """ln of Σ_{j≠j*} (2 + γΔ_j)/(4 exp(γΔ_j)) ≥ Pr[LNMax(γ) ≠ j*] (PATE 2017, Lemma 4), at most 1 − 1/m, per query."""

    def union(counts: NDArray[np.integer]) -> Array:
        scaled = min(gamma, _LARGE) * gaps(counts)
        if scaled.max() > _PLAIN:
            result: Array = logsumexp(np.log1p(scaled / 2) - scaled) - np.log(2)
        else:
            result = np.log(((2 + scaled) * np.exp(-scaled)) @ np.ones(scaled.shape[1])) - np.log(4)
        return result

    return _capped(rowwise(union, counts), counts.shape[1])


def gaussian_log_q(counts: NDArray[np.integer], sigma: float) -> Array:
    """ln of Σ_{j≠j*} ½ erfc(Δ_j/(2σ)) ≥ Pr[GNMax(σ) ≠ j*] (Scalable PATE, Proposition 7), at most 1−1/m, per query."""

    def union(counts: NDArray[np.integer]) -> Array:
        behind = gaps(counts)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            scaled = np.where(behind > 0, behind / (np.sqrt(2) * sigma), 0.0)
        return logsumexp(log_ndtr(-scaled))

    return _capped(rowwise(union, counts), counts.shape[1])


def _capped(log_q: Array, classes: int) -> Array:
    """The plurality is the likeliest outcome, so all others share at most 1 − 1/m, whatever a union bound says."""
    return np.maximum(np.minimum(log_q, np.log1p(-1 / classes)), -_LARGE)
