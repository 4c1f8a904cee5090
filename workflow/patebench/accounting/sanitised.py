"""The private release of a data-dependent Rényi bound, after which it may be published (Scalable PATE, appendix B).

For f the bound at one order α and S its β-smooth sensitivity, both functions of the votes, what is released lies on a
grid of step Δ that does not depend on them:

    f̂ = Δ·(⌈f/Δ⌉ + ⌈s·(1 + σz)⌉ + N),   s = S/Δ + 2,   N a discrete Gaussian of scale τ = σs,

cut off at 0 and at what no votes exceed. Every point of the grid in between can occur whatever the votes are, and what
is published is a function of the point. (Of floating-point noise the lowest digits tell f and S apart from a
neighbour's.) The scale itself may be any number: it is never shown, and what it tells is part of the cost.

*Both directions.* f(D) bounds D_α(M(D) ‖ M(D′)) for every D′ adjacent to D, so D_α(M(D′) ‖ M(D)) ≤ f(D′) ≤ f(D) + S(D).
Therefore f̂ is to exceed f + S, or else be what no votes exceed.

*Failure.* z ≥ 0 is what a standard normal exceeds with probability δ′. A smaller f̂ needs N ≤ −(zτ + 2). For a ≥ 1,
Pr[N ≤ −a] ≤ Pr[𝒩(0, τ²) ≥ a − 1]: each term of Σ_{x≥⌈a⌉} e^{−x²/2τ²} is below the integral over the unit before it,
and the sum over all x is at least τ√(2π) (Canonne, Kamath, Steinke 2020, Proposition 25). So f̂ is too small with
probability at most δ′.

*Cost* (`cost`): shift and scale depend on the votes, so they are part of what releasing f̂ costs. With ρ = s′/s for
adjacent D and D′, e^{−β} ≤ ρ ≤ e^β, as S and constants are β-smooth. Rounding up adds less than 1 to a difference,
twice, so the middles are less than |f−f′|/Δ + 2 + (1+σz)|s−s′| ≤ s·(min(1, ρ) + (1+σz)|ρ−1|) apart. For integers μ, μ′
and discrete Gaussians, with v = 1 + α(ρ²−1) > 0, w = τρ/√v and Z(t) = Σ_x e^{−x²/2t²},

    D_α(N(μ, τ²) ‖ N(μ′, ρ²τ²)) ≤ α(μ−μ′)²/(2τ²v) + (ln Z(w) + (α−1) ln Z(ρτ) − α ln Z(τ))/(α−1),

by completing the square: Σ_x e^{−(x−c)²/2w²} = w√(2π) Σ_k e^{−2π²w²k²} cos 2πkc (Poisson) is largest at c = 0. So
Z(t) = t√(2π)·θ(t) with 1 ≤ θ(t) ≤ (1+q)/(1−q), q = e^{−2π²t²}. Without the θ this is the divergence of continuous
Gaussians (Gil et al. 2013),

    α(μ−μ′)²/(2τ²v) + (αb − ½ ln v)/(α−1),   b = ln ρ,

and the θ add at most ln θ(w)/(α−1) + ln θ(ρτ). Over ρ ≤ 1 both terms are largest at e^{−β}; over ρ ≥ 1 the second at
e^β and the first at 1 or e^β; at e^{−β} the first exceeds what it is at 1, and the second what it is at e^β. So one of
the two ends bounds all. For the θ: τ, ρτ ≥ 2σ, and w ≥ τ for ρ ≤ 1 and w ≥ 2σ/√v for ρ ≥ 1, where v is largest at e^β.
With σ ≥ 1 and α ≥ 2 they add less than 10⁻¹⁰. The cost that Scalable PATE states for continuous noise is not used: with
σ small and 2αβ near 1 it is below a divergence that it should bound (the tests show one).

What the published ε then means. Let D and D′ be adjacent, and f* the larger of f(D) and f(D′). By the theorem behind f
and by composition, labels and f̂ together have D_α ≤ f* + cost in both directions; let ε* be its conversion at δ − δ′.
From either data set f̂ < f* with probability at most δ′, as f* ≤ f + S there. The published ε is computed from f̂ as ε*
is from f*, so ε ≥ ε* unless f̂ < f*; hence, for every event E about labels and f̂, and as well with D and D′ exchanged,

    Pr[M(D) ∈ E] ≤ 𝔼[e^ε; M(D′) ∈ E] + δ.

Publishing more numbers about the same votes costs more: one record stands for the labels of its queries and itself.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from patebench.accounting import conversion, smooth
from patebench.accounting.logspace import Array
from patebench.accounting.votes import Counts
from patebench.core.bound import Conversion
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


def design(curve: Array, local: Array, ceiling: Array, orders: Array, delta: float) -> Design:
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
