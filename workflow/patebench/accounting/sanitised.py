"""Release a data-dependent Rényi bound with noise, after which it may be published (Scalable PATE, appendix B).

For f the bound at one order α and S its β-smooth sensitivity, what is released lies on a grid of step Δ that does not
depend on the votes:

    f̂ = Δ·(⌈f/Δ⌉ + ⌈s·(1 + σz)⌉ + N),   s = S/Δ + 2,   N a discrete Gaussian of scale τ = σs,

cut off at 0 and at what no votes exceed. f̂ < f + S with probability at most δ′, z the normal quantile of δ′; shift and
scale depend on the votes, and `cost` bounds what releasing f̂ costs. The cost that Scalable PATE states for continuous
noise is not used: with σ small and 2αβ near 1 it is below a divergence that it should bound (the tests show one).
Several numbers about the same votes cost more: one record stands for labels and itself.
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

#: Orders tried. At higher ones β must be so small that the noise is that of global sensitivity.
ORDERS = conversion.ORDERS[(conversion.ORDERS > 1.1) & (conversion.ORDERS < 1000)]
#: The share of δ that pays for noise which makes f̂ too small.
FAILURE = 0.1
_BETAS = np.geomspace(0.02, 0.98, 24)  # in units of the largest β of the order
_NOISES = np.geomspace(0.1, 1e4, 61)
_SLACK = 1e-9  # added to β: what S, and the scale of the noise, may be off by relatively, as they are computed
_FINE = 2.0**-10  # of a typical S: the step, which so adds some thousandths to the noise
_POINTS = 2.0**39  # of the grid, at most: scales that are drawn exactly end at 2⁴⁰
_SMALLEST = 2.0**-900  # step


def cost(order: ArrayLike, beta: ArrayLike, noise: ArrayLike, margin: ArrayLike = 0.0) -> Array:
    """The most that releases from adjacent data differ in Rényi divergence; ∞ unless α(1−e^{−2β}) < 1.

    For f̂ as above with ⌈s·σ·margin⌉ in the middle: `margin` is z + 1/σ.
    """
    order, noise, margin = (np.asarray(value, dtype=np.float64) for value in (order, noise, margin))
    beta = np.asarray(beta, dtype=np.float64) + _SLACK
    shrunk, grown = (_gaussian_divergence(order, b, noise, margin) for b in (-beta, beta))
    least = 2 * noise
    uneven = _log_theta(least / np.sqrt(1 + order * np.expm1(2 * beta))) / (order - 1) + _log_theta(least)
    result: Array = np.maximum(shrunk, grown) + uneven
    return result


def _gaussian_divergence(order: Array, b: Array, noise: Array, margin: Array) -> Array:
    """Of continuous Gaussians whose scales are e^b apart and whose means are as far apart as they may be."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        change = order * np.expm1(2 * b)
        shift = np.exp(np.minimum(b, 0)) / noise + margin * np.abs(np.expm1(b))
        scale = (order * b - 0.5 * np.log1p(change)) / (order - 1)
        result: Array = np.where(change > -1, order * shift**2 / (2 * (1 + change)) + np.maximum(scale, 0), np.inf)
    return np.nan_to_num(result, nan=np.inf, posinf=np.inf)


def _log_theta(scale: Array) -> Array:
    """What ln θ is at most for a discrete Gaussian of this scale: how far its sum is from the integral."""
    exponent = -2 * np.pi**2 * scale**2
    with np.errstate(divide="ignore"):
        result: Array = np.log1p(2 * np.exp(exponent) / -np.expm1(exponent))
    return result


def margin(failure: float) -> float:
    """z such that a standard normal is below −z with probability `failure`, or 0."""
    from scipy.special import ndtri

    return max(float(-ndtri(failure)), 0.0)


@dataclass(frozen=True, kw_only=True)
class Design:
    """How to release a bound: order α, β, noise σ in units of smooth sensitivity, failure probability δ′, step Δ."""

    order: float
    beta: float
    noise: float
    failure: float
    step: float

    @property
    def cost(self) -> float:
        """Of the released number alone, at the order of the bound."""
        return float(self.curve(np.array([self.order]))[0])

    def curve(self, orders: Array) -> Array:
        """The Rényi divergence of the released number alone at each order; ∞ from some order on."""
        return cost(orders, self.beta, self.noise, margin(self.failure) + 1 / self.noise)

    def scale(self, sensitivity: float) -> float:
        """The scale of the noise, in steps."""
        return self.noise * (sensitivity / self.step + 2)

    def release(self, value: float, sensitivity: float, ceiling: float, source: Source) -> float:
        """f̂ for `value` f, drawn from `source`, between 0 and what no votes exceed (`ceiling`).

        Noise from a seeded source, which is continuous, is rounded: it is there to be repeated, not to protect.
        """
        if not np.isfinite(ceiling):
            return np.inf
        drawn = source.normal(scale=self.scale(sensitivity), size=1)[0]
        return self.at(value, sensitivity, ceiling, int(np.rint(drawn)))

    def at(self, value: float, sensitivity: float, ceiling: float, draw: int = 0) -> float:
        """f̂ for a given draw of N; its median for 0. A function of the grid's point and of nothing else private."""
        if not np.isfinite(ceiling):
            return np.inf
        shift = math.ceil((sensitivity / self.step + 2) * (1 + self.noise * margin(self.failure)))
        point = math.ceil(value / self.step) + shift + draw
        last = math.ceil(ceiling / self.step)
        return min(min(max(point, 0), last) * self.step, ceiling)

    def epsilon(self, how: Conversion, released: float, delta: float) -> float:
        """ε at δ of the labels and the released bound together."""
        total = np.array([released + self.cost])
        return float(conversion.convert(how, np.array([self.order]), total, delta - self.failure)[0])


def best_design(curve: Array, local: Array, ceiling: Array, orders: Array, delta: float) -> Design:
    """The design with the least median ε for a bound `curve` (per order) of sensitivities `local` (distances × orders).

    Whether the result depends on the data is decided by what is given: a profile chosen beforehand, or the votes.
    """
    failure = FAILURE * delta
    z = margin(failure)
    betas = -0.5 * np.log1p(-1 / orders) * _BETAS[:, None]
    sensitivity = np.stack([smooth.smooth(local, beta) for beta in betas])[:, None]
    noises = _NOISES[:, None]
    steps = _step(sensitivity, noises, ceiling)
    costs = cost(orders, betas[:, None], noises, z + 1 / noises)
    median = np.minimum(curve + 2 * steps + (sensitivity + 2 * steps) * (1 + noises * z), ceiling)
    median = np.where(np.isfinite(ceiling), median, np.inf)
    epsilons = conversion.tight(orders, median + costs, delta - failure)
    i, j, k = np.unravel_index(int(np.argmin(epsilons)), epsilons.shape)
    return Design(
        order=float(orders[k]),
        beta=float(betas[i, k]),
        noise=float(_NOISES[j]),
        failure=failure,
        step=float(steps[i, j, k]),
    )


def _step(sensitivity: Array, noise: Array, ceiling: Array) -> Array:
    """A power of two, so that points of the grid are numbers; wide enough that no votes need too large a scale."""
    widest = np.where(np.isfinite(ceiling), ceiling, 1.0) * np.maximum(noise, 1) / _POINTS
    result: Array = np.exp2(np.ceil(np.log2(np.maximum(np.maximum(sensitivity * _FINE, widest), _SMALLEST))))
    return result


def profile(teachers: int, classes: int) -> Counts:
    """Ten queries as a good ensemble answers them, made up without looking at any votes: counts, queries × classes.

    The plurality has 99% of the votes at best and 55% at worst; half of the rest goes to the runner-up.
    """
    shares = np.array([0.99, 0.99, 0.98, 0.98, 0.97, 0.96, 0.94, 0.9, 0.8, 0.55])
    behind = np.round((1 - shares) * teachers).astype(np.int64)
    result = np.zeros((len(shares), classes), dtype=np.int64)
    result[:, 1:] = (behind // 2 // max(classes - 2, 1))[:, None] if classes > 2 else 0
    result[:, 1] = behind - result[:, 2:].sum(axis=1)
    result[:, 0] = teachers - behind
    return result


log = logging.getLogger("patebench")

#: Of queries × distances × classes: what one core works through in an hour.
_CELLS_PER_HOUR = 2e10


def unwritten(queries: int, divergences: Array) -> None:
    """Tells nobody what a number costs."""


@dataclass(frozen=True)
class SanitisingNoise:
    """Where the noise in a sanitised bound comes from."""

    source: Callable[[int], Source]  #: of the noise in the bound on the first T queries, for each T
    secret: bool  #: nobody can draw it again, so that the bound may be published
    #: Told T and what the number on T queries costs by itself, before it is drawn; what it raises prevents the draw.
    #: The cost is Rényi divergences at `conversion.ORDERS`, and the same whatever the votes are.
    written_down: Callable[[int, Array], None] = unwritten


#: Discrete noise from the operating system's entropy: what a real release needs.
fresh = SanitisingNoise(lambda queries: Entropy(), secret=True)


def seeded(seed: int, *names: str | int) -> SanitisingNoise:
    """Noise that can be reproduced, for experiments: who knows the seed can take it off again."""
    return SanitisingNoise(lambda queries: seeds.generator(seed, *names, "sanitised", queries), secret=False)


def accountants(
    votes: Votes, per_query: PerQuery, worst: Callable[[Array], Array], theorem: str, noise: SanitisingNoise = fresh
) -> list[Accountant]:
    """Both sanitised accountants of a mechanism.

    `worst` is the data-independent curve of one query, which `per_query` never exceeds; `theorem` cites the latter.
    None for votes so many that the sensitivity of their bounds would take hours: that is decided by public sizes.
    """
    if (hours := smooth.work(votes.queries, votes.classes, votes.teachers) / _CELLS_PER_HOUR) > 1:
        log.warning("left out bounds that may be published: their sensitivity would take about %.0f hours", hours)
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
class _Releasing(Accountant):
    counts: Counts
    per_query: PerQuery
    worst: Callable[[Array], Array]

    @property
    def shape(self) -> tuple[int, int]:
        """Teachers and classes: public, like the number of queries."""
        return int(self.counts[0].sum()), self.counts.shape[1]

    @abstractmethod
    def _released(self, queries: Sequence[int], delta: float) -> list[tuple[Design, float]]:
        """The design and f̂ for each T in `queries`, which is sorted."""

    def bounds(self, queries: Sequence[int], delta: float) -> list[Bound]:
        wanted = check_queries(queries, len(self.counts))
        found = dict(zip(wanted, self._released(wanted, delta), strict=True))
        return [
            self._bound(T, *found[T], how, delta) for T in queries for how in (Conversion.CLASSIC, Conversion.TIGHT)
        ]

    def _bound(self, queries: int, design: Design, released: float, how: Conversion, delta: float) -> Bound:
        epsilon = design.epsilon(how, released, delta)
        order = design.order if np.isfinite(epsilon) else None
        found = self.bound(epsilon, delta, queries, conversion=how, order=order)
        return replace(found, source=f"{self.source}; {self._terms(design)}")

    def _terms(self, design: Design) -> str:
        return (
            f"β = {design.beta:.3g}, σ = {design.noise:.3g}, on a grid of step {design.step:.3g}; {design.failure:.3g} "
            f"of δ pays for noise that makes the bound too small; {design.cost:.3g} of the Rényi divergence pays for "
            "releasing this one number"
        )


@dataclass(frozen=True, kw_only=True)
class SanitisedAccountant(_Releasing):
    """Designs the release for a made-up profile of votes, from public facts alone, and draws it. See above.

    The classic and the tight record of one T come from the same draw, so both may be published together, unless the
    noise can be drawn again.
    """

    noise: SanitisingNoise = fresh

    def _released(self, queries: Sequence[int], delta: float) -> list[tuple[Design, float]]:
        typical = profile(*self.shape)
        local = smooth.local(Steps.of(self.per_query, *self.shape, ORDERS), typical) / len(typical)
        curve, worst = self.per_query(typical, ORDERS).mean(axis=0), self.worst(ORDERS)
        designs = [best_design(T * curve, T * local, T * worst, ORDERS, delta) for T in queries]
        for T, design in zip(queries, designs, strict=True):
            self.noise.written_down(T, design.curve(conversion.ORDERS))
        return [(design, self._draw(T, design)) for T, design in zip(queries, designs, strict=True)]

    def bound(self, epsilon: float, delta: float, queries: int, **how: Any) -> Bound:
        return replace(super().bound(epsilon, delta, queries, **how), publishable=self.noise.secret)

    def _terms(self, design: Design) -> str:
        drawn = "" if self.noise.secret else "; its noise came from a named seed, so this draw is not for publishing"
        return super()._terms(design) + drawn

    def _draw(self, queries: int, design: Design) -> float:
        order, counts = np.array([design.order]), self.counts[:queries]
        local = smooth.local(Steps.of(self.per_query, *self.shape, order), counts)
        value = _totals(self.per_query, counts, [queries], order)[0, 0]
        sensitivity = float(smooth.smooth(local, design.beta)[0])
        return design.release(
            float(value), sensitivity, queries * float(self.worst(order)[0]), self.noise.source(queries)
        )


@dataclass(frozen=True, kw_only=True)
class OptimisedAccountant(_Releasing):
    """The median of the release whose design is best for these very votes, as Scalable PATE reports it.

    Design and median are functions of the votes without noise: the number is private, and tells what hindsight gains.
    """

    def _released(self, queries: Sequence[int], delta: float) -> list[tuple[Design, float]]:
        steps = Steps.of(self.per_query, *self.shape, ORDERS)
        curves, worst = _totals(self.per_query, self.counts, queries, ORDERS), self.worst(ORDERS)
        local, done, result = np.zeros(1), 0, []
        for T, curve in zip(queries, curves, strict=True):
            local, done = local + smooth.local(steps, self.counts[done:T]), T
            best = best_design(curve, local, T * worst, ORDERS, delta)
            result.append((best, _median(best, curve, local, T * worst)))
        return result


def _totals(per_query: PerQuery, counts: Counts, queries: Sequence[int], orders: Array) -> Array:
    return summed(per_query.curve, per_query.log_q(counts))(queries, orders)


def _median(design: Design, curve: Array, local: Array, ceiling: Array) -> float:
    at = int(np.flatnonzero(design.order == ORDERS)[0])
    sensitivity = float(smooth.smooth(local[:, [at]], design.beta)[0])
    return design.at(float(curve[at]), sensitivity, float(ceiling[at]))
