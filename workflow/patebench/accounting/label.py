"""Bound on the privacy cost of releasing only the label of a noisy argmax, which is below that of the noisy counts.

**Theorem.** Each count gets independent noise with a symmetric log-concave density. Counts are in units of the noise
scale, so one vote is s = 1/scale. Let one teacher change its vote from class a to class b. The Rényi divergence of
order α between the labels is at most

    W(α) = sup over real u, v of D_α( P(u, v) ‖ P(u − s, v + s) ).

Here u and v are the counts of a and b minus the largest noisy count of all other classes. P(u, v) is the distribution
of three outcomes: a wins, b wins, or another class wins. With S_a = u + noise and S_b = v + noise, a wins if S_a >
max(S_b, 0), and b wins if S_b > max(S_a, 0). The theorem holds for any votes, any number of classes and adaptive
queries (van Erven & Harremoës 2014, *Rényi divergence and Kullback–Leibler divergence*, Theorem 13).

W(α) is bounded from above. In a bounded region, the bounds are computed for cells, which are small ranges of u and v
(`label_tables`; `label_integers` for discrete noise). Outside this region, some outcomes are improbable
(`_bound_outside`).
Proof: docs/explanation/proofs-labels.md, "The cost of a label".
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from patebench.accounting import label_integers, label_tables, rdp
from patebench.accounting.accountant import RenyiAccountant, repeated
from patebench.accounting.conversion import ORDERS, convert
from patebench.accounting.label_tables import Cells
from patebench.accounting.logspace import LEAST, Array
from patebench.core.bound import Bound, Conversion, Kind

#: Relative error of sums of bounds on slopes.
_ROUNDING = 1e-10

#: Citation in the source of a bound.
THEOREM = "van Erven & Harremoës 2014, Theorem 13, as proved in accounting/label.py"

#: Largest (α − 1)s at which the label costs noticeably less than the counts.
_TILT = 20.0

#: Approximate cost of a label relative to the counts, as the start of a search.
_SHARE = 0.65

#: Index step of the orders tried first, small enough to find the global minimum.
_FEW = 16

#: Orders for which the supremum is bounded, evenly spaced in ln(α − 1); other orders are interpolated.
_ORDERS = np.sort(np.concatenate([ORDERS, 1 + np.sqrt((ORDERS[1:] - 1) * (ORDERS[:-1] - 1))]))


@dataclass(frozen=True)
class _Noise:
    """Properties of one kind of noise that `LabelCost` needs to bound the Rényi divergence of one label."""

    # All functions take s, one vote in noise scales.
    inside: Callable[[float], Sequence[Cells]]  # cells of u and v (see the module)
    one_count: Callable[[float, float], float]  # divergence, at an order, of one noisy count that changes by s
    tail: Callable[[float, float, float], tuple[float, float]]  # bounds beyond a reach; see `_bound_gaussian_tail`
    reach: float  # noise beyond which outcomes are treated as improbable, in noise scales
    least: float = 0.0  # s below which the cost of the counts is used
    discrete: bool = False


def _bound_gaussian_tail(s: float, order: float, reach: float) -> tuple[float, float]:
    """Bound the part of the Rényi divergence of one label that is due to Gaussian noise beyond `reach`.

    The divergence of order α = `order` is ln(1 + x)/(α − 1), where x is a sum over outcomes (`label_tables.excess`).
    The bounds are on the part of x that is due to noise beyond `reach`, in units of α(α−1)s²/2. One vote changes a
    count by `s`; `s` and `reach` are in noise scales.

    Returns
    -------
    Bound for the noise of one of the two changed counts, and bound for the noise of both.
    """
    tilt = (order - 1) * s

    def integrate(start: float, offset: float) -> float:
        """Return ∫ (x + `offset`)² φ(x) dx over x ≥ `start`, with φ the normal density."""
        density = math.exp(-start * start / 2) / math.sqrt(2 * math.pi)
        return (1 + offset**2) * float(ndtr(-start)) + (start + 2 * offset) * density

    # With densities p and q before and after the vote changes, p^α q^{1−α} is e^{γ(γ+s)/2} times the normal density p
    # shifted by γ = (α−1)s. At a distance y from its mean, r = ln(p/q) is s(y + γ + s/2) for one score and s(y_a − y_b
    # + 2γ + s) for both. Where r < 0, q counts: γ = −s.
    one = math.exp(tilt * (tilt + s) / 2) * integrate(reach - tilt, tilt + s / 2) + integrate(reach - s, s / 2)
    tilted = integrate(reach - tilt, 2 * tilt + s) + float(ndtr(tilt - reach))
    both = 2 * (math.exp(tilt * (tilt + s)) * tilted + integrate(reach - s, s) + float(ndtr(s - reach)))
    return one, both


def _bound_laplace_tail(s: float, order: float, reach: float) -> tuple[float, float]:
    """Return two bounds on the contribution of Laplace noise beyond `reach`; see `_bound_gaussian_tail`."""
    # The log ratio of one score is from −s to s.
    probability, tilt = math.exp(s - reach) / 2, (order - 1) * s
    return probability * (math.exp(tilt) + 1), 2 * 4 * probability * (math.exp(2 * tilt) + 1)


_GAUSSIAN = _Noise(
    inside=lambda s: [label_tables.cells(label_tables.gaussian(), s)],
    one_count=lambda s, order: order * s * s / 2,
    tail=_bound_gaussian_tail,
    reach=11.0,
)
_LAPLACE = _Noise(
    inside=lambda s: [label_tables.cells(label_tables.laplace(), s)],
    one_count=lambda s, order: float(rdp.pure(s, [order])[0]),
    tail=_bound_laplace_tail,
    reach=18.0,
)
_DISCRETE_GAUSSIAN = replace(
    _GAUSSIAN,
    inside=lambda s: label_integers.gaussian(1 / s),
    reach=9.0,
    least=1 / label_integers.LARGEST_SCALE,
    discrete=True,
)
_DISCRETE_LAPLACE = replace(
    _LAPLACE,
    inside=lambda s: label_integers.laplace(1 / s),
    least=1 / label_integers.LARGEST_SCALE,
    discrete=True,
)


def _bound_outside(noise: _Noise, s: float, order: float) -> float:
    """Return an upper bound on the Rényi divergence of one label for all counts that `noise.inside` does not cover.

    One vote changes a count by `s` noise scales.
    """
    # On integers, the reach X is smaller by two votes. One vote covers the shift of a score by the tie rule. The other
    # vote covers the tail probability, a sum that is below the integral from one vote earlier.
    reach = noise.reach - 2 * s if noise.discrete else noise.reach
    one, both = noise.tail(s, order, reach)
    # The log ratio of the nearly certain outcome is at most 2s·f(X − s)/F(X − s); f is the density, F its integral.
    certain = 2 * math.exp(s - reach)
    rest = certain**2 * math.exp(certain * order * s)
    unit = order * (order - 1) * s * s / 2
    # Sums over all integers exceed integrals by less than 1 %, as s ≤ 1.
    improbable_one, improbable_both = (math.log1p(unit * (1.01 * share + rest)) / (order - 1) for share in (one, both))
    return max(noise.one_count(s, order) + improbable_one, improbable_both)


class LabelCost:
    """Rényi curve of one label of a noisy argmax, for one kind and scale of noise; values are cached."""

    def __init__(self, noise: _Noise, s: float, counts: Callable[[Array], Array]) -> None:
        """Create the curve if one vote changes a count by `s` noise scales.

        `counts` is the Rényi curve of releasing all noisy counts.
        """
        self._noise, self._s, self.counts = noise, s, counts
        self._known: dict[int, float] = {}

    def at(self, index: int) -> float:
        """Return an upper bound on the Rényi divergence of one label at the order `_ORDERS[index]`."""
        if index not in self._known:
            self._known[index] = self._bound_at(float(_ORDERS[index]))
        return self._known[index]

    def _bound_at(self, order: float) -> float:
        counts_cost = float(self.counts(np.array([order]))[0])
        s = self._s
        if (
            not LEAST < counts_cost < math.inf
            or not self._noise.least <= s <= label_tables.LARGEST
            or (order - 1) * s > _TILT
        ):
            return counts_cost
        outside = _bound_outside(self._noise, s, order)
        if outside >= counts_cost:
            return counts_cost
        return min(counts_cost, max(outside, *(cells.worst(order) for cells in _cells(self._noise, s))))

    def curve(self, orders: Array) -> Array:
        """Return upper bounds on the Rényi divergence D_α of one label at any `orders`.

        Bounds are computed on a grid of orders. (α − 1)D_α is convex in α (van Erven & Harremoës 2014, Corollary 2), so
        between two orders of the grid it lies below the line between the computed bounds. Below the grid, the bound at
        its first order is valid, since D_α rises with α (Theorem 3).
        """
        orders = np.asarray(orders, dtype=np.float64)
        counts_cost = self.counts(orders)
        right = np.clip(np.searchsorted(_ORDERS, orders), 1, len(_ORDERS) - 1)
        low, high = _ORDERS[right - 1] - 1, _ORDERS[right] - 1
        share = np.clip((orders - 1 - low) / (high - low), 0, 1)
        first = np.array([self.at(i - 1) if part < 1 else 0.0 for i, part in zip(right.tolist(), share, strict=True)])
        second = np.array([self.at(i) if part > 0 else 0.0 for i, part in zip(right.tolist(), share, strict=True)])
        with np.errstate(invalid="ignore"):
            chord = ((1 - share) * low * first + share * high * second) / np.maximum(orders - 1, low)
        chord = np.where(np.isnan(chord), np.inf, chord)
        return np.where(orders > _ORDERS[-1], counts_cost, np.minimum(counts_cost, chord * (1 + _ROUNDING)))


@lru_cache(maxsize=2)
def _cells(noise: _Noise, s: float) -> Sequence[Cells]:
    return noise.inside(s)


@lru_cache(maxsize=256)
def gaussian(sigma: float, *, discrete: bool = False) -> LabelCost:
    """Return the Rényi curve of one label of GNMax(σ), with continuous or discrete noise."""
    noise, s = _DISCRETE_GAUSSIAN if discrete else _GAUSSIAN, 1 / sigma if sigma > 0 else math.inf
    return LabelCost(noise, s, lambda orders: rdp.gaussian(sigma, orders))


@lru_cache(maxsize=256)
def laplace(gamma: float, *, discrete: bool = False) -> LabelCost:
    """Return the Rényi curve of one label of LNMax(γ), with continuous or discrete noise."""
    noise = _DISCRETE_LAPLACE if discrete else _LAPLACE
    return LabelCost(noise, gamma, lambda orders: rdp.laplace(gamma, orders))


@dataclass(frozen=True, kw_only=True)
class LabelAccountant(RenyiAccountant):
    """Rényi accountant for releasing only the labels of a noisy argmax.

    It computes few orders because each is expensive. The bound is valid at any order.

    Parameters
    ----------
    cost : Rényi curve of one label
    further_costs : Rényi curve of all other costs of a query, such as a threshold test
    """

    cost: LabelCost
    further_costs: Callable[[Array], Array]

    def bounds(self, queries: Sequence[int], delta: float) -> list[Bound]:
        return [self._least_bound(T, how, delta) for T in queries for how in self.conversions]

    def _least_bound(self, queries: int, how: Conversion, delta: float) -> Bound:
        remaining = self.remaining_delta(delta, queries)
        if remaining == 0:
            return self.bound(math.inf, delta, queries, conversion=how)

        @lru_cache
        def epsilon(index: int) -> float:
            order = _ORDERS[index : index + 1]
            return float(convert(how, order, queries * (self.cost.at(index) + self.further_costs(order)), remaining)[0])

        guess = queries * (self.cost.counts(_ORDERS) * _SHARE + self.further_costs(_ORDERS))
        starts = [int(np.argmin(convert(how, _ORDERS, guess, remaining))), *range(0, len(_ORDERS), _FEW)]
        best = min(starts, key=epsilon)
        for step in (_FEW // 4, _FEW // 8, 1):
            best = _descend(epsilon, best, step, len(_ORDERS))
        least = epsilon(best)
        order = float(_ORDERS[best]) if math.isfinite(least) else None
        return self.bound(least, delta, queries, conversion=how, order=order)


def _descend(height: Callable[[int], float], start: int, step: int, size: int) -> int:
    """Return a local minimum of `height` over the indices 0 … `size` − 1, found by descent from `start`.

    The result is an index i for which neither `height(i − step)` nor `height(i + step)` is smaller than `height(i)`.
    """
    while True:
        near = [index for index in (start - step, start + step) if 0 <= index < size]
        lowest = min(near, key=height)
        if not height(lowest) < height(start):
            return start
        start = lowest


def accountant(
    costs: Callable[..., LabelCost],
    parameter: float,
    *,
    further_costs: Callable[[Array], Array] = np.zeros_like,
    test: str = "",
) -> LabelAccountant:
    """Return the worst-case accountant of the labels of a noisy argmax.

    Parameters
    ----------
    costs, parameter : the function `gaussian` and its σ, or `laplace` and its γ
    further_costs : Rényi curve of all other costs of a query, such as a threshold test
    test : citation for `further_costs`, such as the theorem for a threshold test; empty: none
    """

    def build(cost: LabelCost, discrete: str | LabelAccountant) -> LabelAccountant:
        return LabelAccountant(
            name="label",
            label="label, Rényi",
            kind=Kind.WORST_CASE,
            source=f"{THEOREM} (label); {test}" if test else THEOREM,
            discrete=discrete,
            totals=repeated(lambda orders: cost.curve(orders) + further_costs(orders)),
            orders=ORDERS,
            cost=cost,
            further_costs=further_costs,
        )

    on_integers = "discrete noise: as the theorem has it, on the integers, ties to the lowest class"
    return build(costs(parameter), build(costs(parameter, discrete=True), on_integers))


def per_query(costs: Callable[..., LabelCost], parameter: float) -> Callable[[Array], Array]:
    """Return a Rényi curve of one label that is valid for both continuous and discrete noise.

    `costs` is `gaussian` or `laplace`, and `parameter` its σ or γ.
    """
    cost, integer_cost = costs(parameter), costs(parameter, discrete=True)
    return lambda orders: np.maximum(cost.curve(orders), integer_cost.curve(orders))
