"""Sanitised bounds: data-dependent Rényi bounds with added noise, which may be published (Scalable PATE, appendix B).

A data-dependent bound f depends on the votes, so f must not be published. The published number is f plus a shift and
noise, rounded to a grid and clipped to the range from 0 to the worst-case bound:

    f̂ = Δ·(⌈f/Δ⌉ + ⌈s·(1 + σz)⌉ + N),   s = S/Δ + 2.

- f is the bound at one order α, and S is its β-smooth sensitivity.
- Δ is the step of the grid. s is the sensitivity in steps, plus 2 for rounding.
- N is a draw of discrete Gaussian noise of scale σs.
- z is the number that a standard normal variable exceeds with probability δ′.

f bounds the Rényi divergence in one direction only. In the other direction, the bound is f of the neighbouring votes,
which is at most f + S. So f + S bounds both directions. Before clipping, f̂ is below f + S with probability at most δ′.

`cost` bounds the Rényi divergence of releasing f̂. It takes into account that the shift and the noise scale depend on
the votes. The cost that Scalable PATE states for continuous noise is not used, because it is too small for some
parameters.
The stated ε covers the labels and one number f̂; publishing several such numbers costs more.
Proof: docs/explanation/proofs-noise.md, "Sanitised bounds".
"""

import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from patebench.accounting import conversion, smooth
from patebench.accounting.accountant import Accountant, check_queries, summed
from patebench.accounting.logspace import Array
from patebench.accounting.smooth import PerQuery, Steps
from patebench.accounting.votes import Counts, Votes
from patebench.core import seeds
from patebench.core.bound import Bound, Conversion, Kind
from patebench.core.entropy import Entropy
from patebench.core.seeds import Source

#: Orders tried. At higher orders β must be so small that the noise is as large as for global sensitivity.
ORDERS = conversion.ORDERS[(conversion.ORDERS > 1.1) & (conversion.ORDERS < 1000)]
#: Fraction of δ reserved for the event that the noise makes f̂ too small.
FAILURE = 0.1
#: Values of β that are tried, relative to ½ ln(α/(α − 1)); `cost` is finite only for β below this number.
_BETAS = np.geomspace(0.02, 0.98, 24)
_NOISES = np.geomspace(0.1, 1e4, 61)  # values of σ that are tried
_SLACK = 1e-9  # added to β; covers the relative rounding error of S and of the noise scale
_FINE = 2.0**-10  # grid step relative to S; rounding to the grid adds a few thousandths to the noise
_POINTS = 2.0**39  # maximum number of grid points, as exact draws support scales up to 2⁴⁰
_SMALLEST = 2.0**-900  # minimum step


def cost(order: ArrayLike, beta: ArrayLike, noise: ArrayLike, margin: ArrayLike = 0.0) -> Array:
    """Return an upper bound on the Rényi divergence of publishing a noisy bound; ∞ if α(1−e^{−2β}) ≥ 1.

    Parameters
    ----------
    order : Rényi order α
    beta : β of the smooth sensitivity
    noise : σ, the noise scale divided by S + 2, where S is the smooth sensitivity in grid steps
    margin : upward shift of the noisy bound in units of the noise scale
    """
    order, noise, margin = (np.asarray(value, dtype=np.float64) for value in (order, noise, margin))
    beta = np.asarray(beta, dtype=np.float64) + _SLACK
    shrunk, grown = (_gaussian_divergence(order, b, noise, margin) for b in (-beta, beta))
    least = 2 * noise
    uneven = _log_theta(least / np.sqrt(1 + order * np.expm1(2 * beta))) / (order - 1) + _log_theta(least)
    return np.maximum(shrunk, grown) + uneven


def _gaussian_divergence(order: Array, b: Array, noise: Array, margin: Array) -> Array:
    """Return an upper bound on the Rényi divergence of two neighbours' data-dependent bounds with Gaussian noise.

    The noise scale of the second neighbour is e^`b` times that of the first. For the other parameters, see `cost`.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        change = order * np.expm1(2 * b)
        # the largest distance of the means that adjacent data allow
        shift = np.exp(np.minimum(b, 0)) / noise + margin * np.abs(np.expm1(b))
        scale = (order * b - 0.5 * np.log1p(change)) / (order - 1)
        result: Array = np.where(change > -1, order * shift**2 / (2 * (1 + change)) + np.maximum(scale, 0), np.inf)
    return np.nan_to_num(result, nan=np.inf, posinf=np.inf)


def _log_theta(scale: Array) -> Array:
    """Return an upper bound on ln(Σ_x exp(−x²/2t²) / ∫ exp(−x²/2t²) dx) over the integers x, with t = `scale`."""
    exponent = -2 * np.pi**2 * scale**2
    with np.errstate(divide="ignore"):
        result: Array = np.log1p(2 * np.exp(exponent) / -np.expm1(exponent))
    return result


def margin(failure: float) -> float:
    """Return z ≥ 0 such that a standard normal variable is below −z with probability at most `failure`."""
    from scipy.special import ndtri

    return max(float(-ndtri(failure)), 0.0)


@dataclass(frozen=True, kw_only=True)
class Design:
    """Parameters of the noise that makes a data-dependent Rényi bound publishable.

    Parameters
    ----------
    order : Rényi order α of the bound
    beta : β of the smooth sensitivity
    noise : σ, the noise scale divided by (smooth sensitivity + 2·`step`)
    failure : probability δ′ that the noisy bound is too small
    step : step Δ of the grid to which the noisy bound is rounded
    """

    order: float
    beta: float
    noise: float
    failure: float
    step: float

    @property
    def cost(self) -> float:
        """Return the Rényi divergence of publishing a noisy bound, without labels, at the order of the bound."""
        return float(self.curve(np.array([self.order]))[0])

    def curve(self, orders: Array) -> Array:
        """Return the Rényi divergence of publishing a noisy data-dependent bound without labels; ∞ at high orders."""
        return cost(orders, self.beta, self.noise, margin(self.failure) + 1 / self.noise)

    def scale(self, sensitivity: float) -> float:
        """Return the noise scale in grid steps for a data-dependent bound of smooth sensitivity `sensitivity`."""
        return self.noise * (sensitivity / self.step + 2)

    def release(self, value: float, sensitivity: float, ceiling: float, source: Source) -> float:
        """Return the data-dependent bound `value` plus a shift and noise from `source`, clipped to [0, `ceiling`].

        `sensitivity` is the smooth sensitivity of the bound, and `ceiling` is its worst case. Noise from a seeded
        source is continuous and rounded: it is meant to be reproducible, not private.
        """
        if not np.isfinite(ceiling):
            return np.inf
        noise = source.normal(scale=self.scale(sensitivity), size=1)[0]
        return self.at(value, sensitivity, ceiling, int(np.rint(noise)))

    def at(self, value: float, sensitivity: float, ceiling: float, draw: int = 0) -> float:
        """Return the result of `release` if the noise is `draw` grid steps; a `draw` of 0 gives the median."""
        if not np.isfinite(ceiling):
            return np.inf
        shift = math.ceil((sensitivity / self.step + 2) * (1 + self.noise * margin(self.failure)))
        point = math.ceil(value / self.step) + shift + draw
        last = math.ceil(ceiling / self.step)
        return min(min(max(point, 0), last) * self.step, ceiling)

    def epsilon(self, how: Conversion, released: float, delta: float) -> float:
        """Return the ε at `delta` of publishing the labels and the noisy bound `released`, by the conversion `how`."""
        total = np.array([released + self.cost])
        return float(conversion.convert(how, np.array([self.order]), total, delta - self.failure)[0])


def best_design(curve: Array, local: Array, ceiling: Array, delta: float) -> Design:
    """Return the noise parameters for which the median of the noisy bound gives the least ε at `delta`.

    The result depends on the counts from which `curve` and `local` were computed. With artificial counts (`profile`),
    it does not depend on votes.

    Parameters
    ----------
    curve : (orders,) data-dependent Rényi bound at `ORDERS`
    local : (distances, orders) local sensitivity of the data-dependent bound, for d = 0, 1, … changed votes per query
    ceiling : (orders,) worst case of the data-dependent bound
    """
    failure = FAILURE * delta
    z = margin(failure)
    betas = -0.5 * np.log1p(-1 / ORDERS) * _BETAS[:, None]
    sensitivity = np.stack([smooth.smooth(local, beta) for beta in betas])[:, None]
    noises = _NOISES[:, None]
    steps = _grid_step(sensitivity, noises, ceiling)
    costs = cost(ORDERS, betas[:, None], noises, z + 1 / noises)
    median = np.minimum(curve + 2 * steps + (sensitivity + 2 * steps) * (1 + noises * z), ceiling)
    median = np.where(np.isfinite(ceiling), median, np.inf)
    epsilons = conversion.tight(ORDERS, median + costs, delta - failure)
    i, j, k = np.unravel_index(int(np.argmin(epsilons)), epsilons.shape)
    return Design(
        order=float(ORDERS[k]),
        beta=float(betas[i, k]),
        noise=float(_NOISES[j]),
        failure=failure,
        step=float(steps[i, j, k]),
    )


def _grid_step(sensitivity: Array, noise: Array, ceiling: Array) -> Array:
    """Return the grid step: a power of two, large enough that discrete noise on the grid can be drawn exactly."""
    widest = np.where(np.isfinite(ceiling), ceiling, 1.0) * np.maximum(noise, 1) / _POINTS
    # a power of two, so that grid points are exact
    return np.exp2(np.ceil(np.log2(np.maximum(np.maximum(sensitivity * _FINE, widest), _SMALLEST))))


def profile(teachers: int, classes: int) -> Counts:
    """Return artificial counts (10 queries × classes), typical of accurate teachers and independent of real votes.

    The plurality gets 55 % to 99 % of the votes, and the runner-up about half of the rest.
    """
    shares = np.array([0.99, 0.99, 0.98, 0.98, 0.97, 0.96, 0.94, 0.9, 0.8, 0.55])
    behind = np.round((1 - shares) * teachers).astype(np.int64)
    result = np.zeros((len(shares), classes), dtype=np.int64)
    result[:, 1:] = (behind // 2 // max(classes - 2, 1))[:, None] if classes > 2 else 0
    result[:, 1] = behind - result[:, 2:].sum(axis=1)
    result[:, 0] = teachers - behind
    return result


log = logging.getLogger("patebench")

#: Number of queries × distances × classes that one core processes per hour.
_CELLS_PER_HOUR = 2e10


@dataclass(frozen=True)
class SanitisingNoise:
    """Noise for sanitised bounds, which are data-dependent bounds plus noise.

    Parameters
    ----------
    source : function of T that returns the source of the noise for the bound on the first T queries
    secret : True if nobody can draw the same noise again, so that the bound may be published
    record_cost : function that is called before the noise is drawn, to record the cost of publishing the bound, for
        example in a ledger. Arguments: T, and the cost as worst-case Rényi divergences at `conversion.ORDERS`. If it
        raises an exception, no noise is drawn
    """

    source: Callable[[int], Source]
    secret: bool
    record_cost: Callable[[int, Array], None] = lambda queries, divergences: None


#: Discrete noise from the operating system's entropy, for real releases.
fresh = SanitisingNoise(lambda queries: Entropy(), secret=True)


def seeded(seed: int, *names: str | int) -> SanitisingNoise:
    """Return reproducible noise, which gives no privacy.

    The noise depends on `seed` and on `names`; different names give independent noise.
    """
    return SanitisingNoise(lambda queries: seeds.generator(seed, *names, "sanitised", queries), secret=False)


def accountants(
    votes: Votes, per_query: PerQuery, worst: Callable[[Array], Array], theorem: str, noise: SanitisingNoise
) -> list[Accountant]:
    """Return two accountants for sanitised bounds, which are data-dependent Rényi bounds plus noise.

    The ε of the first accountant may be published if `noise` is secret. The second accountant is for comparison only:
    its noise parameters are optimised on `votes`. The list is empty if computing the smooth sensitivity would take more
    than an hour. This time is estimated from public numbers only.

    Parameters
    ----------
    per_query : data-dependent theorem
    worst : data-independent Rényi curve of one query, which `per_query` never exceeds
    theorem : citation of the data-dependent theorem
    noise : noise of the first accountant
    """
    if (hours := smooth.work(votes.queries, votes.classes, votes.teachers) / _CELLS_PER_HOUR) > 1:
        log.warning(
            "no sanitised bound is computed, because its smooth sensitivity would take about %.0f hours; use fewer"
            " queries or teachers",
            hours,
        )
        return []
    source = (
        f"{theorem}, and for the other direction what one teacher changes; Nissim, Raskhodnikova, Smith 2007 "
        "(smooth sensitivity); Scalable PATE, appendix B (release)"
    )
    return [
        SanitisedAccountant(
            name="rdp-sanitised",
            label="Rényi",
            kind=Kind.SANITISED,
            source=source,
            counts=votes.counts,
            per_query=per_query,
            worst=worst,
            noise=noise,
        ),
        OptimisedAccountant(
            name="rdp-sanitised-optimised",
            label="Rényi, optimised",
            variant=True,
            kind=Kind.DATA_DEPENDENT,
            source=source,
            counts=votes.counts,
            per_query=per_query,
            worst=worst,
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class _ReleasingAccountant(Accountant):
    counts: Counts
    per_query: PerQuery
    worst: Callable[[Array], Array]

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of teachers and classes, both of which are public."""
        return int(self.counts[0].sum()), self.counts.shape[1]

    @abstractmethod
    def _design_and_draw(self, queries: Sequence[int], delta: float) -> list[tuple[Design, float]]:
        """Return a pair for each T in `queries`: the noise parameters, and the noisy bound on the first T queries."""

    def bounds(self, queries: Sequence[int], delta: float) -> list[Bound]:
        wanted = check_queries(queries, len(self.counts))
        releases = dict(zip(wanted, self._design_and_draw(wanted, delta), strict=True))
        return [
            self._bound(T, *releases[T], how, delta) for T in queries for how in (Conversion.CLASSIC, Conversion.TIGHT)
        ]

    def _bound(self, queries: int, design: Design, released: float, how: Conversion, delta: float) -> Bound:
        epsilon = design.epsilon(how, released, delta)
        order = design.order if np.isfinite(epsilon) else None
        bound = self.bound(epsilon, delta, queries, conversion=how, order=order)
        return replace(bound, source=f"{self.source}; {self._terms(design)}")

    def _terms(self, design: Design) -> str:
        return (
            f"β = {design.beta:.3g}, σ = {design.noise:.3g}, on a grid of step {design.step:.3g}; {design.failure:.3g} "
            f"of δ pays for noise that makes the bound too small; {design.cost:.3g} of the Rényi divergence pays for "
            "releasing this one number"
        )


@dataclass(frozen=True, kw_only=True)
class SanitisedAccountant(_ReleasingAccountant):
    """Accountant of sanitised bounds: it adds noise to a data-dependent bound, so that ε may be published.

    The noise parameters are optimised for the artificial counts of `profile`, so they do not depend on the votes. For
    each number of queries, one noisy bound gives ε by the classic and by the tight conversion. Both may be published,
    except with seeded noise.
    """

    noise: SanitisingNoise

    def _design_and_draw(self, queries: Sequence[int], delta: float) -> list[tuple[Design, float]]:
        typical = profile(*self.shape)
        local = smooth.local(Steps.of(self.per_query, *self.shape, ORDERS), typical) / len(typical)
        curve, worst = self.per_query(typical, ORDERS).mean(axis=0), self.worst(ORDERS)
        designs = [best_design(T * curve, T * local, T * worst, delta) for T in queries]
        for T, design in zip(queries, designs, strict=True):
            self.noise.record_cost(T, design.curve(conversion.ORDERS))
        return [(design, self._draw(T, design)) for T, design in zip(queries, designs, strict=True)]

    def bound(self, epsilon: float, delta: float, queries: int, **fields: Any) -> Bound:
        return replace(super().bound(epsilon, delta, queries, **fields), publishable=self.noise.secret)

    def _terms(self, design: Design) -> str:
        caveat = "" if self.noise.secret else "; its noise came from a named seed, so this draw is not for publishing"
        return super()._terms(design) + caveat

    def _draw(self, queries: int, design: Design) -> float:
        order, counts = np.array([design.order]), self.counts[:queries]
        local = smooth.local(Steps.of(self.per_query, *self.shape, order), counts)
        value = _total_bounds(self.per_query, counts, [queries], order)[0, 0]
        sensitivity = float(smooth.smooth(local, design.beta)[0])
        return design.release(
            float(value), sensitivity, queries * float(self.worst(order)[0]), self.noise.source(queries)
        )


@dataclass(frozen=True, kw_only=True)
class OptimisedAccountant(_ReleasingAccountant):
    """Accountant of sanitised bounds whose noise parameters are optimised for the real votes, as in Scalable PATE.

    It computes ε from the median of the noisy bound, without drawing noise. The parameters and the median depend on the
    votes, so this ε must not be published. It is only compared with the ε of `SanitisedAccountant`, whose parameters do
    not depend on the votes.
    """

    def _design_and_draw(self, queries: Sequence[int], delta: float) -> list[tuple[Design, float]]:
        steps = Steps.of(self.per_query, *self.shape, ORDERS)
        curves, worst = _total_bounds(self.per_query, self.counts, queries, ORDERS), self.worst(ORDERS)
        local, done, result = np.zeros(1), 0, []
        for T, curve in zip(queries, curves, strict=True):
            local, done = local + smooth.local(steps, self.counts[done:T]), T
            best = best_design(curve, local, T * worst, delta)
            at = int(np.flatnonzero(best.order == ORDERS)[0])
            sensitivity = float(smooth.smooth(local[:, [at]], best.beta)[0])
            result.append((best, best.at(float(curve[at]), sensitivity, float((T * worst)[at]))))
        return result


def _total_bounds(per_query: PerQuery, counts: Counts, queries: Sequence[int], orders: Array) -> Array:
    return summed(per_query.curve, per_query.log_q(counts))(queries, orders)
