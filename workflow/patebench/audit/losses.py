"""What two outcome distributions give away: hockey-stick divergence, the least ε at a δ, and both after T queries.

The hockey-stick divergence δ(ε) = Σ_j (P_j − e^ε Q_j)⁺ is the least δ for which P and Q are (ε, δ)-close in this
direction (Balle & Wang 2018, Theorem 5). Every ε here is a lower bound: it is rounded towards 0.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.exact import ERROR
from patebench.accounting.logspace import Array, log1mexp, logsumexp

Integers = NDArray[np.integer]

#: Cells of the grid on which losses are composed.
_CELLS = 1 << 18

#: Shares of δ given up for rounding losses to the grid, and for the tails beyond it.
_GIVEN_UP = 1e-3

#: Relative error of sums of a few terms.
_EPS = float(np.finfo(np.float64).eps)
_ROUNDING = 64 * _EPS


def least_epsilon(log_p: Array, log_p_neighbour: Array, multiplicity: Integers, delta: float) -> Array:
    """The least ε ≥ 0 with δ(ε) ≤ δ per row; ∞ where outcomes that Q never has weigh more than δ.

    With outcomes in the order of P_j / Q_j, δ(ε) = max_k Σ_{j≤k} (P_j − e^ε Q_j), so the least ε is the largest over k
    of ln((Σ_{j≤k} P_j − δ) / Σ_{j≤k} Q_j).
    """
    likely, rare = _events(log_p, log_p_neighbour, multiplicity)
    return _largest(likely, rare, delta)


def measurable(
    log_p: Array, log_p_neighbour: Array, multiplicity: Integers, delta: float, runs: int, confidence: float
) -> Array:
    """What `least_epsilon` would be if both probabilities of an event were known from so many runs each, per row."""
    from scipy.special import ndtri

    z = float(ndtri((1 + confidence) / 2))
    likely, rare = (np.exp(each) for each in _events(log_p, log_p_neighbour, multiplicity))
    likely = np.maximum(likely - z * np.sqrt(likely / runs), 0.0)
    rare = rare + z * np.sqrt(rare / runs) + z * z / runs
    with np.errstate(divide="ignore"):
        return _largest(np.log(likely), np.log(rare), delta)


def _events(log_p: Array, log_p_neighbour: Array, multiplicity: Integers) -> tuple[Array, Array]:
    """ln P and ln Q of the best events: outcomes by falling likelihood ratio, one more in each column."""
    lower, upper = _inward(log_p, log_p_neighbour, multiplicity)
    with np.errstate(invalid="ignore"):
        ratio = np.where(lower > -np.inf, lower - upper, -np.inf)
    order = np.argsort(-ratio, axis=1, kind="stable")
    likely, rare = (np.take_along_axis(each, order, axis=1) for each in (lower, upper))
    return np.logaddexp.accumulate(likely, axis=1), np.logaddexp.accumulate(rare, axis=1)


def _inward(log_p: Array, log_p_neighbour: Array, multiplicity: Integers) -> tuple[Array, Array]:
    """ln P and ln Q of each column, P rounded down and Q up by what they may be wrong by."""
    with np.errstate(divide="ignore"):
        times = np.log(multiplicity)
    lower = log_p * (1 + ERROR) - _ROUNDING + times
    upper = log_p_neighbour * (1 - ERROR) + _ROUNDING + times
    return lower, upper


def _largest(likely: Array, rare: Array, delta: float) -> Array:
    """The largest of 0 and ln((P − δ) / Q) along the last axis, from ln P and ln Q of events."""
    exceeds = likely > math.log(delta)
    margin = log1mexp(np.where(exceeds, math.log(delta) - likely, -np.inf))
    with np.errstate(invalid="ignore"):
        candidates = np.where(exceeds, likely + margin - rare, 0.0)
    result: Array = np.max(candidates, axis=-1, initial=0.0)
    return result


def binary(likely: float, rare: float, queries: int, delta: float) -> float:
    """The least ε of T independent queries, each of which shows an event of probability P ≥ `likely`, Q ≤ `rare`.

    The number of times that the event shows is binomial under both, and more of them speak for P.
    """
    from scipy.special import gammaln

    if likely <= rare:
        return 0.0
    i = np.arange(queries, -1, -1)
    ways = gammaln(queries + 1) - gammaln(i + 1) - gammaln(queries - i + 1)
    tails = [np.logaddexp.accumulate(ways + _powers(p, i) + _powers(1 - p, queries - i)) for p in (likely, rare)]
    slack = 1e-12 * queries
    return float(_largest(np.minimum(tails[0], 0.0) - slack, tails[1] + slack, delta))


def _powers(p: float, times: NDArray[np.integer]) -> Array:
    """ln pⁿ, also for p = 0."""
    return np.where(times > 0, times * math.log(p), 0.0) if p > 0 else np.where(times > 0, -np.inf, 0.0)


def composed(log_p: Array, log_p_neighbour: Array, multiplicity: Integers, queries: int, delta: float) -> float:
    """A lower bound on the least ε of T independent queries with these outcomes (one row of `least_epsilon`).

    The privacy losses ln P/Q add up (Sommer, Meiser, Mohammadi 2019, Theorem 1). Each is put on a grid, on one of the
    two cells beside it at random, so that its mean stays. The T differences are independent, have mean 0 and lie in
    intervals of one cell's width h, so by Hoeffding's inequality their sum exceeds η = h √(T ln(1/δ₀)/2) with
    probability δ₀ at most, and the true δ(ε) is at least that on the grid at ε + η, less δ₀.
    """
    single = float(least_epsilon(log_p[None], log_p_neighbour[None], multiplicity[None], delta)[0])
    if queries == 1 or math.isinf(single):
        return single
    step = _Losses.of(log_p, log_p_neighbour, multiplicity)
    certain = -math.expm1(queries * math.log1p(-step.certain))
    if certain > delta:
        return math.inf
    return max(single, _on_grid(step, queries, delta, certain))


@dataclass(frozen=True, eq=False)
class _Losses:
    """Privacy losses of one query, each with its probability under P; `certain` is that of an infinite loss.

    Together they may weigh a little less than 1, which gives less away.
    """

    loss: Array
    probability: Array
    certain: float

    @classmethod
    def of(cls, log_p: Array, log_p_neighbour: Array, multiplicity: Integers) -> "_Losses":
        lower, upper = _inward(log_p, log_p_neighbour, multiplicity)
        certain = float(np.sum(np.exp(lower[np.isneginf(upper)])))
        finite = (lower > -np.inf) & (upper > -np.inf)
        return cls(lower[finite] - upper[finite], np.exp(lower[finite]), certain)

    def tail(self, queries: int, log_probability: float) -> float:
        """What the sum of T losses exceeds with at most this probability, by Chernoff's bound."""
        largest = max(float(np.max(np.abs(self.loss))), 1e-300)
        deviation = max(math.sqrt(queries * float(self.probability @ self.loss**2)), 1e-300)
        s = np.concatenate([np.geomspace(1e-3, 1e3, 200) / largest, np.geomspace(1e-2, 1e2, 100) / deviation])
        with np.errstate(divide="ignore", over="ignore"):
            cumulants = logsumexp(np.log(self.probability) + s[:, None] * self.loss)
        bounds = (queries * cumulants - log_probability) / s
        return float(min(np.min(bounds), queries * np.max(self.loss)))

    def reversed(self) -> "_Losses":
        return _Losses(-self.loss, self.probability, self.certain)


def _on_grid(step: _Losses, queries: int, delta: float, certain: float) -> float:
    """A lower bound on ε from the sum of T losses on a grid; sums beyond it, either side, have little probability."""
    given_up = _GIVEN_UP * delta
    high = step.tail(queries, math.log(given_up))
    low = -step.reversed().tail(queries, math.log(given_up))
    if high <= 0:
        return 0.0
    off = min(math.sqrt(queries * math.log(1 / given_up) / 2), queries)
    spare = math.ceil(off) + 2
    width = max(high - low, 1e-9 * high) / (_CELLS - 2 * spare)
    index = math.floor(low / width) - spare + np.arange(_CELLS)
    masses = _power(step, width, queries)[index % _CELLS]
    error = 16 * _EPS * math.sqrt(_CELLS) * (queries + math.log2(_CELLS)) * float(np.linalg.norm(masses))
    losses, masses = index[index > 0][::-1] * width, masses[index > 0][::-1]
    with np.errstate(divide="ignore"):
        rare = np.logaddexp.accumulate(np.log(np.maximum(masses, 0.0)) - losses)
    likely = np.cumsum(masses) - 3 * given_up - error + certain
    above = likely > delta
    epsilon = np.log(likely[above] - delta) - np.logaddexp(rare[above], math.log(error) - losses[above])
    return max(0.0, float(np.max(epsilon, initial=0.0)) - off * width)


def _power(step: _Losses, width: float, queries: int) -> Array:
    """Probabilities of the sum of T losses, cell by cell, whole turns of the grid left out."""
    place = step.loss / width
    below = np.floor(place)
    share = place - below
    one = np.zeros(_CELLS)
    np.add.at(one, below.astype(np.int64) % _CELLS, step.probability * (1 - share))
    np.add.at(one, (below.astype(np.int64) + 1) % _CELLS, step.probability * share)
    result: Array = np.fft.irfft(np.fft.rfft(one) ** queries, _CELLS)
    return result
