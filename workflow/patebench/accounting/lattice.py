"""Exact composition of T equal steps whose privacy losses are evenly spaced, such as those of perturbed votes.

The privacy loss distribution of the T steps is a T-fold convolution (Sommer, Meiser, Mohammadi 2019; Koskela, Jälkö,
Honkela 2020), which has finitely many points here: nothing is put on a grid and no tail is cut off.
"""

import math

import numpy as np

from patebench.accounting.calibrate import arithmetic, bisect
from patebench.accounting.logspace import Array

#: More points than this are not worked out; adding up then stands alone.
_POINTS = 1 << 22

#: Relative rounding of one multiplication in the transforms, with room to spare.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


def composition(step: Array, top: float, queries: int, delta: float) -> float:
    """The least ε for which T steps are (ε, δ)-DP, when one loses `top` … −`top` in even steps with probability `step`.

    δ(ε) = Σ p·(1 − e^{ε − loss}) over the losses above ε (Sommer et al. 2019, Lemma 5). The result never falls below
    the truth: what the transforms may be wrong by counts as δ. Never above T·`top`, with which there is no δ at all.
    """
    plain, points = queries * top, queries * (len(step) - 1) + 1
    if plain == 0 or math.isinf(plain) or points > _POINTS:
        return plain
    size = 1 << (points - 1).bit_length()
    p: Array = np.maximum(np.fft.irfft(np.fft.rfft(step, size) ** queries, size)[:points], 0.0)
    losses = np.linspace(plain, -plain, points)
    gains = losses > 0
    return _least(p[gains], losses[gains], delta - _transform_error(size, queries), plain)


def _transform_error(size: int, queries: int) -> float:
    """What the probabilities may be wrong by altogether.

    Powers of a spectrum below 1 add a relative error of T roundings, transforms one of ln(size); by Parseval's theorem
    the probabilities' error has the same 2-norm, and a 1-norm that is at most √size times as large.
    """
    return math.sqrt(size) * (queries + math.log2(size)) * _ROUNDING


def _least(p: Array, losses: Array, delta: float, high: float) -> float:
    """The ε at which δ(ε) = `delta`, from above, for losses (points) of probabilities p; at most `high`."""

    def spent(epsilon: float) -> float:
        above = losses > epsilon
        return float(np.sum(p[above] * -np.expm1(epsilon - losses[above])))

    if delta <= 0:
        return high
    if spent(0.0) <= delta:
        return 0.0
    return bisect(lambda epsilon: spent(epsilon) <= delta, high, 0.0, halve=arithmetic, near=1e-12)
