"""The private release of a data-dependent Rényi bound, after which it may be published (Scalable PATE, appendix B).

The Gaussian mechanism with noise scaled by smooth sensitivity (GNSS) releases

    f̂ = f + S·σ·(Z + z),   Z standard normal,   z the quantile that Z + z < 0 with probability δ′,

for f the bound at one order α and S its β-smooth sensitivity. So f̂ < f with probability at most δ′. The shift z keeps
f̂ an upper bound; as S is private too, it is part of what the release costs (`cost`). The cost that Scalable PATE states
is not used: with σ small and 2αβ near 1 it is below a divergence that it should bound (the tests show one).

What the published ε then means. Let ε₀ be the (private) conversion of f + cost at δ − δ′. By the theorem behind f and
by composition, Pr[M(D) ∈ E] ≤ e^{ε₀} Pr[M(D′) ∈ E] + δ − δ′ for every event E about labels and f̂ together. The
published ε is computed from f̂ as ε₀ is from f, so ε ≥ ε₀ unless f̂ < f; hence, for every event E,

    Pr[M(D) ∈ E] ≤ 𝔼[e^ε; M(D′) ∈ E] + δ,

where D are the votes at hand and ε the number that was published. Publishing more numbers about the same votes costs
more: one record stands for the labels of its queries and itself.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from patebench.accounting import conversion, smooth
from patebench.accounting.logspace import Array
from patebench.accounting.votes import Counts
from patebench.core.bound import Conversion

#: Orders tried. At higher ones β must be so small that the noise is that of global sensitivity.
ORDERS = conversion.ORDERS[(conversion.ORDERS > 1.1) & (conversion.ORDERS < 1000)]
#: The share of δ that pays for noise which makes f̂ too small.
FAILURE = 0.1
_BETAS = np.geomspace(0.02, 0.98, 24)  # in units of the largest β of the order
_NOISES = np.geomspace(0.1, 1e4, 61)


def cost(order: ArrayLike, beta: ArrayLike, noise: ArrayLike, margin: ArrayLike = 0.0) -> Array:
    """The most that releases f + S·σ·(Z + z) of adjacent data differ in Rényi divergence; ∞ unless α(1−e^{−2β}) < 1.

    With ρ = S′/S = e^b, |b| ≤ β and |f − f′| ≤ min(S, S′), the means are at most S·(min(1, ρ) + zσ|ρ − 1|) apart, and
    D_α(N(μ, σ²S²) ‖ N(μ′, σ²S′²)) = α(μ−μ′)²/(2σ²S²v) + (αb − ½ ln v)/(α−1), v = 1 + α(ρ²−1) (Gil et al. 2013).
    Over ρ ≤ 1 both terms are largest at e^{−β}; over ρ ≥ 1 the second at e^β and the first at 1 or e^β, and what they
    are at 1 they exceed at e^{−β}. So one of the two ends bounds all.
    """
    order, beta, noise = (np.asarray(value, dtype=np.float64) for value in (order, beta, noise))
    shrunk, grown = (_gaussian_divergence(order, b, noise, np.asarray(margin)) for b in (-beta, beta))
    return np.maximum(shrunk, grown)


def _gaussian_divergence(order: Array, b: Array, noise: Array, margin: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        change = order * np.expm1(2 * b)
        shift = np.exp(np.minimum(b, 0)) / noise + margin * np.abs(np.expm1(b))
        scale = (order * b - 0.5 * np.log1p(change)) / (order - 1)
        result: Array = np.where(change > -1, order * shift**2 / (2 * (1 + change)) + np.maximum(scale, 0), np.inf)
    return np.nan_to_num(result, nan=np.inf, posinf=np.inf)


def margin(failure: float) -> float:
    """z such that a standard normal is below −z with probability `failure`."""
    from scipy.special import ndtri

    return float(-ndtri(failure))


@dataclass(frozen=True, kw_only=True)
class Design:
    """How to release a bound: order α, β, noise σ in units of smooth sensitivity, failure probability δ′."""

    order: float
    beta: float
    noise: float
    failure: float

    @property
    def cost(self) -> float:
        return float(cost(self.order, self.beta, self.noise, margin(self.failure)))

    def release(self, value: float, sensitivity: float, ceiling: float, rng: np.random.Generator) -> float:
        """f̂ for `value` f, drawn with `rng`, between 0 and what no votes exceed (`ceiling`)."""
        return self.at(value, sensitivity, ceiling, float(rng.standard_normal()))

    def at(self, value: float, sensitivity: float, ceiling: float, draw: float = 0.0) -> float:
        """f̂ for a given draw of Z; its median for 0."""
        if not np.isfinite(ceiling):
            return np.inf
        noisy = value + sensitivity * self.noise * (draw + margin(self.failure))
        return float(np.clip(noisy, 0.0, ceiling))

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
    sensitivity = np.stack([smooth.smooth(local, beta) for beta in betas])
    costs = cost(orders, betas[:, None], _NOISES[:, None], z)
    median = np.minimum(curve + sensitivity[:, None] * _NOISES[:, None] * z, ceiling)
    median = np.where(np.isfinite(ceiling), median, np.inf)
    epsilons = conversion.tight(orders, median + costs, delta - failure)
    i, j, k = np.unravel_index(int(np.argmin(epsilons)), epsilons.shape)
    return Design(order=float(orders[k]), beta=float(betas[i, k]), noise=float(_NOISES[j]), failure=failure)


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
