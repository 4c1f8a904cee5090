"""Bound G_α(γ) on the Rényi divergence of one noisy label if the two largest counts differ by at least γ.

The label is argmax(counts + noise), with noise on the integers and ties to the lowest class. Let D be a histogram of n
votes whose two largest counts differ by at least γ, and let D′ be D with one vote moved to another class. G_α(γ) bounds
the Rényi divergences of order α between the labels of D and of D′, in both directions, for all such D and D′. It is
public, because it depends only on n, on the number of classes, on the noise and on α. The computed value is an upper
bound despite rounding, and it does not increase with γ.

Notation, also for the functions of this module:

- t is the class with the largest count of D. On D′, it has lost one vote, gained one vote, or done neither.
- The score of a class is its noisy count (on D or on D′) minus the count of t on D, without noise.
- Y is the largest score of the unchanged classes, which neither lose nor gain a vote. J is the first class with this
  score.
- P and P′ are the probabilities of an outcome on D and on D′.
- The moment of the label is Σ P^α P′^{1−α}, summed over the outcomes. The Rényi divergence is ln(moment)/(α − 1).
- m(y) is the moment given Y = y. M(y) is the largest m(y′) with y′ ≤ y.
- Y* is a random variable that is stochastically at least as large as Y: Pr[Y* ≥ y] ≥ Pr[Y ≥ y] for every y.

The moment is at most E m(Y). If t loses the vote, this is at most E M(Y*), which the module computes. Proof of all
cases: docs/explanation/proofs-mechanisms.md, "The divergence at a gap".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import LEAST, Array, log1mexp, softplus
from patebench.core.blocks import blocks
from patebench.core.errors import PatebenchError
from patebench.mechanisms.noise import LatticeNoise

Integers = NDArray[np.int64]

#: −ln of three probabilities that the sums leave out: of Y* above `_Window.high`, of a score above `_Window.summed`,
#: and of a score below `_Window.low`.
_ABOVE, _SUMMED, _BELOW = 40.0, 90.0, 60.0

#: Largest ln of a moment that double precision can store. If the noise is so small that moments are larger, the result
#: is the bound for all noisy counts together (`LatticeNoise.divergence`).
_OVERFLOW = 700.0

#: Above this x, the 1 in eˣ − 1 is negligible, and products with small probabilities are computed in log space.
_LARGE_POWER = 500.0

#: Upper bounds on relative errors: of one step of a sum in log space, and of the last few operations together.
_STEP, _SLACK = 16 * float(np.finfo(np.float64).eps), 1e-9

#: Maximum of gaps × scores in one block of gaps, and for all gaps together.
_CELLS, _MOST = 1 << 16, 1 << 23


def gap_divergence(noise: LatticeNoise, orders: Sequence[float], teachers: int, classes: int) -> Array:
    """Return bounds G_α(γ) on the Rényi divergence of one noisy label, (orders, `teachers` + 1).

    Row i is for α = `orders[i]`. Column γ is for votes whose two largest counts differ by at least γ.

    Raises
    ------
    PatebenchError
        If the table is too large to compute, because of many teachers or large noise.
    """
    return _tables(noise, tuple(map(float, orders)), teachers, classes)


@lru_cache(maxsize=64)
def _tables(noise: LatticeNoise, orders: tuple[float, ...], teachers: int, classes: int) -> Array:
    alphas = np.array(orders)
    most = noise.divergence(alphas)
    exponents = (alphas - 1) * most
    result = np.repeat(most[:, None], teachers + 1, axis=1)
    finite = np.flatnonzero(exponents < _OVERFLOW)
    if len(finite):
        window = _Window.of(noise, teachers, float(np.max(exponents[finite])))
        caps = np.expm1(exponents[finite])
        first_loses = _bound_first_loses(window, alphas[finite], caps, classes)
        for row, cap, excess in zip(finite, caps, first_loses, strict=True):
            if classes > 2:
                excess = np.maximum(excess, _bound_neither(window, float(alphas[row]), float(cap)))
            curve = np.log1p(excess) / (alphas[row] - 1) * (1 + _SLACK) + LEAST
            result[row] = np.minimum(result[row], np.maximum.accumulate(curve[::-1])[::-1])
    result.flags.writeable = False
    return result


class _Side(NamedTuple):
    """Probability P and privacy loss ln(P/P′) of one outcome, for the divergence of a histogram D from a neighbour D′.

    P is the probability on D, and P′ that on D′. All values are rounded in the direction that makes bounds on the
    divergence valid.
    """

    log_weight: Array  # ln P, rounded up
    ratio: Array  # r = ln(P/P′), moved away from 0 by a bound on its rounding error
    change: Array  # P·(e^{−r} − 1)

    def excess(self, order: float) -> Array:
        """Return an upper bound on the part of this outcome in the sum Σ P^α P′^{1−α} − 1, with α = `order`.

        The sum is over all outcomes, with probabilities P and P′ for two neighbours. The part of an outcome is P·f(r),
        with r = ln(P/P′) and the function

            f(r) = (e^{(α−1)r} − 1) + (α−1)(e^{−r} − 1)

        In the sum over all outcomes, the second term of f contributes 0, because the P and the P′ have the same sum.
        """
        value = _product(self.log_weight, (order - 1) * self.ratio)
        return value + (order - 1) * self.change + 2 * _STEP * np.abs(value)


def _product(log_weight: Array, power: Array) -> Array:
    """Return exp(`log_weight`)·(exp(`power`) − 1), without overflow of exp(`power`)."""
    large = power > _LARGE_POWER
    with np.errstate(over="ignore"):
        value: Array = np.exp(log_weight) * np.expm1(np.where(large, 0.0, power))
        value[large] = np.exp(log_weight[large] + power[large])
    return value


class _Outcome(NamedTuple):
    """Log probabilities of one outcome on a histogram D and on its neighbour D′, with bounds on rounding errors.

    `error` is a bound on the rounding error of both log probabilities, `log_p` and `log_p_neighbour`. `error_of_ratio`
    is a bound on the rounding error of their difference.
    """

    log_p: Array
    log_p_neighbour: Array
    error: Array
    error_of_ratio: Array

    def side(self, *, backward: bool) -> _Side:
        """Return the probability P of this outcome and its privacy loss ln(P/P′), for one direction of the divergence.

        P is for a histogram D and P′ for its neighbour D′, or vice versa if `backward`. If P = 0, the outcome adds
        nothing to the divergence.
        """
        here, there = (self.log_p, self.log_p_neighbour)[:: -1 if backward else 1]
        with np.errstate(invalid="ignore"):
            ratio = np.where(here > -np.inf, here - there, 0.0)
        ratio += np.copysign(self.error_of_ratio, ratio)
        return _Side(here + self.error, ratio, _product(here + self.error, -ratio))


@dataclass(frozen=True, eq=False)
class _Window:
    """Tables of log probabilities of the noise, and the ranges of noisy counts over which the bounds are summed."""

    noise: LatticeNoise
    teachers: int
    exponent: float  # bound on the ln of the moment of the label
    low: int  # sums run over scores from `low` to `summed`
    high: int  # Y ranges from `low` to `high`
    summed: int
    p_table: Array  # ln Pr[noise = z] for z from `start`
    cdf_table: Array  # ln Pr[noise ≤ z] for z from `start`

    @classmethod
    def of(cls, noise: LatticeNoise, teachers: int, exponent: float) -> "_Window":
        """Create the tables and ranges for counts of `teachers` teachers.

        The moment of the label is the sum of P^α P′^{1−α} over the labels. `exponent` must be an upper bound on its
        logarithm. The ranges are so wide that noisy counts outside them add a negligible amount to the moment.
        """
        high, summed, below = (noise.reach(part + exponent) for part in (_ABOVE, _SUMMED, _BELOW))
        low, summed = -teachers - below, max(summed, high + 3)
        if (high - low) * (teachers + 1) > _MOST:
            raise PatebenchError(
                f"with {teachers} teachers and noise of scale {noise.scale:g}, the table of divergences by gap is too "
                "large to compute; use fewer teachers, or less noise"
            )
        end = max(summed + teachers + 9, -low + below)
        log_p = noise.log_weights(np.arange(-end, end)) - noise.log_normaliser()
        log_cdf = np.logaddexp.accumulate(log_p)
        log_cdf[end:] = log1mexp(log_cdf[:end][::-1])  # by symmetry, without cancellation near 1
        return cls(noise, teachers, exponent, low, high, summed, log_p, log_cdf)

    @property
    def start(self) -> int:
        return -(len(self.p_table) // 2)

    def log_pmf(self, z: Integers) -> Array:
        """Return ln Pr[noise = z]."""
        return self.p_table[z - self.start]

    def log_cdf(self, z: Integers) -> Array:
        """Return ln Pr[noise ≤ z]."""
        return self.cdf_table[z - self.start]

    def error(self, log_sum: Array) -> Array:
        """Return a bound on the rounding error of `log_sum`, the ln of a sum of probabilities of the noise.

        The sum may have as many terms as the table of these probabilities.
        """
        return _STEP * len(self.p_table) * (1 + np.abs(np.where(np.isfinite(log_sum), log_sum, 0.0)))


# The first class loses a vote.


class _Ties(NamedTuple):
    """Offsets that select entries of tables, so that ties between classes t, b and J have the right winner.

    Class t has the largest count and loses a vote to class b, which is x votes behind. Class J has the largest noisy
    count of all other classes, y above the count of t. A tie of noisy counts goes to the class with the lowest index,
    so each order of the three indices has its own offsets.

    `_outcomes_first_loses` reads Pr[t wins], Pr[b wins] and Pr[J wins] from tables over x and y. In a table, the class
    wins every tie. If the class loses a tie, the offsets lead from the entry for x and y to the entry with the right
    probability.
    """

    t: tuple[int, int]  # offsets (in y, in x) of the sum that is Pr[t wins]
    b: tuple[int, int]  # offsets (in y, in x) of the sum that is Pr[b wins]
    rest: tuple[int, int]  # offsets in y of the distribution functions of t and of b, whose product is Pr[J wins]
    either: bool  # True if the values at y are also those for Y = y − 1 and an index of J below those of t and b


#: Orders of the indices: t < b with J before or after both; b < t with J before or after both; t < J < b; b < J < t.
_ORDERS = (
    _Ties((0, 0), (-1, 1), (-1, -1), True),
    _Ties((0, -1), (0, 0), (-1, -1), True),
    _Ties((0, 0), (0, 1), (-1, 0), False),
    _Ties((1, -1), (0, 0), (0, -1), False),
)


def _outcomes_first_loses(window: _Window, low: int, high: int, other_classes: bool) -> list[list[_Outcome]]:
    """Return the outcomes "t wins", "b wins" and "J wins" of the noisy argmax, if a vote moves from class t to class b.

    Class t has the largest count. Class J has the largest score (noisy count minus the count of t) of all other
    classes. If `other_classes` is False, there are only t and b, and J never wins.

    `result[i]` is the list of the three outcomes if the indices of t, b and J have the order `_ORDERS[i]`, which
    decides ties. An outcome contains arrays of log probabilities before and after the move of the vote. Axis 0 is the
    number of votes by which b is behind t before the move, `low` … `high`. Axis 1 is the score of J, `window.low` …
    `window.high`. The probabilities are conditional on this score.
    """
    # The tables of sums have larger ranges than the outcomes, which read sums at up to three steps beyond x and y.
    x, z = np.arange(low - 3, high + 2)[:, None], np.arange(window.low - 1, window.summed + 1)
    rows, columns = high - low + 1, window.high - window.low + 1

    def sum_above(table: Array) -> Array:
        return np.logaddexp.accumulate(table[:, ::-1], axis=1)[:, ::-1]

    first = sum_above(window.log_pmf(z) + window.log_cdf(z + x))  # ln Σ_{z ≥ y} p(z)F(z + x): t beats b or ties
    other = sum_above(window.log_pmf(z + x) + window.log_cdf(z))  # ln Σ_{z ≥ y} p(z + x)F(z): b beats t or ties

    def read(table: Array, dy: int, dx: int) -> Array:
        return table[3 + dx : 3 + dx + rows, 1 + dy : 1 + dy + columns]

    def log_probabilities(ties: _Ties, dy: int, dx: int) -> list[Array]:
        """Return ln Pr[t wins], ln Pr[b wins] and ln Pr[J wins] as three arrays over x and y.

        Class b is x + `dx` votes behind t, and the noisy count of J is y + `dy` above the count of t. Before the vote
        moves, `dx` and `dy` are 0. After the vote has moved from t to b, `dx` is −2 and `dy` is 1. `ties` belongs to
        the order of the classes' indices, which decides ties.
        """
        y = np.arange(window.low, window.high + 1) + dy
        rest = window.log_cdf(y + ties.rest[0]) + window.log_cdf(y + x[3:-1] + dx + ties.rest[1])
        t, b = read(first, dy + ties.t[0], dx + ties.t[1]), read(other, dy + ties.b[0], dx + ties.b[1])
        return [t, b, rest if other_classes else np.full_like(rest, -np.inf)]

    result = []
    for ties in _ORDERS:
        # On D′, with a vote moved from t to b, sums are read at y + 1 and x − 2.
        t_wins, *others = log_probabilities(ties, 0, 0)
        t_wins_neighbour, *others_neighbour = log_probabilities(ties, 1, -2)
        other_outcomes = [_outcome(window, *pair) for pair in zip(others, others_neighbour, strict=True)]
        result.append([_first_class_wins(window, t_wins, t_wins_neighbour, other_outcomes), *other_outcomes])
    return result


def _first_class_wins(
    window: _Window, log_p: Array, log_p_neighbour: Array, other_outcomes: Sequence[_Outcome]
) -> _Outcome:
    """Return the outcome "the class with the largest count wins", given its ln Pr before and after a vote moves.

    Where `other_outcomes` (wins of other classes) are improbable, the probabilities are instead computed as 1 minus
    those of `other_outcomes`, which is more precise.
    """
    others, others_neighbour = (np.exp(other_outcomes[0][side]) + np.exp(other_outcomes[1][side]) for side in (0, 1))
    plain = _outcome(window, log_p, log_p_neighbour)
    near = np.maximum(others, others_neighbour) < 0.5
    error = 4 * (other_outcomes[0].error + other_outcomes[1].error) * np.maximum(others, others_neighbour)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_complement, log_complement_neighbour = np.log1p(-others), np.log1p(-others_neighbour)
    return _Outcome(
        np.where(near, log_complement, log_p),
        np.where(near, log_complement_neighbour, log_p_neighbour),
        np.where(near, error, plain.error),
        np.where(near, error, plain.error_of_ratio),
    )


def _bound_first_loses(window: _Window, orders: Array, caps: Array, classes: int) -> Array:
    """Return upper bounds on (moment of the label) − 1 if the class with the most votes loses one, (orders × gaps).

    The moment is Σ P^α P′^{1−α} over the labels, with probabilities P and P′ before and after the vote moves, or vice
    versa. Row i is for α = `orders[i]`. Column γ is for votes whose two largest counts differ by at least γ.

    `caps` (orders,) are weaker bounds, which are valid even if all noisy counts are released instead of the label.
    """
    result = np.zeros((len(orders), window.teachers + 1))
    # An upper bound on Pr[Y* ≥ high] + Pr[Y < low].
    outside = ((classes - 2) * math.exp(-_ABOVE) + math.exp(-_BELOW)) * math.exp(-window.exponent)
    for rows in blocks(window.teachers + 1, _CELLS // (window.summed - window.low)):
        x = np.arange(rows.start, rows.stop)
        outcomes = _outcomes_first_loses(window, rows.start, rows.stop - 1, classes > 2)
        both_directions = [
            [[outcome.side(backward=backward) for outcome in three] for three in outcomes] for backward in (False, True)
        ]
        reached = _tail_probabilities(window, classes, int(x[-1]))
        for row, (order, cap) in enumerate(zip(orders, caps, strict=True)):
            for terms in both_directions:
                worst = np.minimum(_running_maximum(terms, float(order)), cap)
                # E M(Y*) − 1. The result is the maximum over both directions and over x = γ … n, the number of votes
                # by which class b is behind t.
                mean = np.diff(worst, axis=1, prepend=0.0) @ reached + cap * outside
                mean = np.where(x[:, None] >= np.arange(x[-1] + 1), mean, 0.0)
                result[row, : x[-1] + 1] = np.maximum(result[row, : x[-1] + 1], mean.max(axis=0))
    return result * (1 + _SLACK)


def _tail_probabilities(window: _Window, classes: int, largest_gap: int) -> Array:
    """Return upper bounds on Pr[Y ≥ y], (scores y × gaps γ), for votes whose two largest counts differ by at least γ.

    Y is the largest score of the classes whose counts do not change; a score is a noisy count minus the largest count.
    The scores are y = `window.low` … `window.high` − 1, and the gaps γ = 0 … `largest_gap`.
    """
    y, gap = np.arange(window.low, window.high)[:, None], np.arange(largest_gap + 1)
    # Y* is the largest score if every unchanged class is γ votes behind t.
    reached: Array = -np.expm1((classes - 2) * window.log_cdf(y - 1 + gap))
    reached[0] = 1.0
    return reached


def _running_maximum(terms: Sequence[Sequence[_Side]], alpha: float) -> Array:
    """Return M(y) − 1 for scores y, where M(y) is the largest moment of the label given Y = y′ over all y′ ≤ y.

    The moment is the sum of P^α P′^{1−α} over the labels, with α = `alpha`. The score of a class is its noisy count
    minus the largest count. Y is the largest score of the classes whose counts do not change. M(y) is also the largest
    over all ways to break ties, `_ORDERS`. Rows of the result are for gaps between the largest count and the count that
    gains the vote. Columns are for scores y in ascending order.

    Parameters
    ----------
    terms : for each entry of `_ORDERS`, the probabilities of three outcomes, in one direction of the divergence: the
        class that loses the vote wins, the class that gains the vote wins, or another class wins
    alpha : order of the Rényi divergence
    """
    worst: Array = np.zeros(())
    for ties, three in zip(_ORDERS, terms, strict=True):
        excess = three[0].excess(alpha) + three[1].excess(alpha) + three[2].excess(alpha)
        worst = np.maximum(worst, excess[:, :-1])
        if ties.either:
            worst = np.maximum(worst, excess[:, 1:])
    return np.maximum.accumulate(worst, axis=1)


# Two other classes lose and gain a vote.


def _bound_neither(window: _Window, order: float, cap: float) -> Array:
    """Return upper bounds on (moment of the label) − 1 if the class with the largest count keeps its votes, (gaps,).

    A vote moves between two other classes. The moment is Σ P^α P′^{1−α} over the labels, with α = `order`. Entry γ is
    for votes whose two largest counts differ by at least γ.

    `cap` is a weaker bound, which is valid for every γ, even if all noisy counts are released instead of the label.
    """
    loses, gains = (_observed_moment(window, order, step) for step in (1, -1))
    below = window.noise.reach(_BELOW + window.exponent)
    y, gap = np.arange(-below, window.high + 1)[:, None], np.arange(window.teachers + 1)
    u = y + gap - (window.low + 2)
    # (1 + C(u))(1 + C′(u)) − 1, where `_observed_moment` returns C for the class that loses a vote and C′ for the class
    # that gains it, and u is γ plus the score of t
    forward = loses[u] + gains[u] + loses[u] * gains[u]
    backward = gains[u + 1] + loses[u - 1] + gains[u + 1] * loses[u - 1]
    law = np.exp(window.log_pmf(y[:, 0]))
    outside = 2 * (math.exp(-_BELOW) + math.exp(-_ABOVE)) * math.exp(-window.exponent)
    result: Array = law @ np.minimum(np.maximum(forward, backward), cap) + cap * outside
    return result * (1 + _SLACK)


def _observed_moment(window: _Window, order: float, step: int) -> Array:
    """Return upper bounds C(u) on (moment) − 1 for the release of one noisy count if its noise is at least u.

    If the noise is below u, only this fact is released. One vote moves away from the class (`step` = 1) or to the class
    (`step` = −1). The moment is Σ P^α P′^{1−α} over all possible releases, with probabilities P and P′ before and after
    the move, and α = `order`. Entry i of the result is for u = `window.low` + 2 + i.
    """
    u = np.arange(window.low + 2, window.summed + window.teachers + 1)
    # The noise z is observed only if z ≥ u. The same score needs noise z on D and z + `step` on D′, with a step of 1
    # for the class that loses a vote.
    observed = _outcome(window, window.log_pmf(u), window.log_pmf(u + step)).side(backward=False).excess(order)
    here, there = window.log_cdf(u - 1), window.log_cdf(u - 1 + step)
    crossing = window.log_pmf(u) - here if step == 1 else window.log_pmf(u - 1) - there
    ratio = -step * softplus(crossing)
    error = window.error(here)
    below = _Outcome(here, here - ratio, error, 4 * window.error(crossing) * np.abs(ratio))
    total = np.cumsum(observed[::-1])[::-1] + below.side(backward=False).excess(order)
    # The largest value at u or above. It decreases beyond this range, as do the probability of an observation and the
    # ratio of the probabilities of z < u.
    return np.maximum.accumulate(total[::-1])[::-1]


def _outcome(window: _Window, here: Array, there: Array) -> _Outcome:
    error = window.error(np.minimum(here, there))
    return _Outcome(here, there, error, 2 * error)
