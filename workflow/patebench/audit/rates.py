"""What counting shows: how often an event happens on D and on D′, and the ε that follows with confidence."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from patebench.accounting.logspace import Array
from patebench.audit.losses import binary, composed

#: The share of what confidence leaves that is kept for bounds on each probability by itself, and the points at which
#: the line of equal evidence is looked at.
_BOX, _POINTS = 0.02, 48

#: Where one side has less of the variance than this, both are bounded by themselves, that side with so much of α.
_LITTLE = 0.05


def clopper_pearson(successes: float, runs: float, alpha: float) -> tuple[float, float]:
    """Bounds on a probability that showed in so many of the runs; each fails with probability alpha at most.

    Clopper & Pearson 1934.
    """
    return float(_low(successes, runs, alpha)), float(_high(successes, runs, alpha))


def _low(successes: float, runs: float, alpha: float | Array) -> Array:
    from scipy.special import betaincinv

    level = np.asarray(alpha, dtype=np.float64)
    return np.asarray(betaincinv(successes, runs - successes + 1, level)) if successes > 0 else np.zeros_like(level)


def _high(successes: float, runs: float, alpha: float | Array) -> Array:
    from scipy.special import betainccinv

    level = np.asarray(alpha, dtype=np.float64)
    return np.asarray(betainccinv(successes + 1, runs - successes, level)) if successes < runs else np.ones_like(level)


class _Corners(NamedTuple):
    """Pairs of a probability on D, at least, and one on D′, at most: one pair is right with the stated confidence."""

    likely: Array
    rare: Array


@dataclass(frozen=True)
class Rates:
    """How often an event showed on D (`positives`) and on D′ (`false_positives`), in so many runs each.

    Both probabilities are bounded together. With U and V the probabilities, under the true P and Q, of so many
    positives or more and of so few false ones or fewer, Φ⁻¹(1 − U) and Φ⁻¹(1 − V) are independent and neither exceeds
    a standard normal more often than that itself does. So their sum with weights √w and √(1 − w) is below
    Φ⁻¹(1 − α) with probability 1 − α (Stouffer et al. 1949), whatever w is, if it was chosen before the counting:
    `weight` is best where it is P's share of the variance of ln P/Q. A small part of α bounds P and Q by themselves
    (Clopper & Pearson 1934), so that neither is given up for the other; where one has next to all the variance, as with
    events that never show on D′, they are bounded so alone.
    """

    positives: float
    false_positives: float
    runs: float
    confidence: float
    weight: float = 0.5

    def epsilon(self, delta: float, queries: int = 1) -> float:
        """ε is at least ln((P − δ)/Q), as P ≤ e^ε Q + δ; of T independent queries, at least that of the T events."""
        corners = self._corners()
        return min(
            binary(float(p), float(q), queries, delta) for p, q in zip(corners.likely, corners.rare, strict=True)
        )

    def mu(self, rate: float = 1.0) -> float:
        """A μ-GDP mechanism has μ ≥ Φ⁻¹(P) − Φ⁻¹(Q) (Dong, Roth, Su 2022, Definition 2.6).

        Where it only runs on D at this rate, and on D′ otherwise, P = rate·P₁ + (1 − rate)·Q, and that is said of P₁. A
        P that no μ allows for gives ∞.
        """
        from scipy.special import ndtri

        corners = self._corners()
        with np.errstate(invalid="ignore"):
            run = np.clip((corners.likely - (1 - rate) * corners.rare) / rate, 0.0, 1.0)
            least = ndtri(run) - ndtri(corners.rare)
        return max(0.0, float(np.min(np.where(np.isnan(least), 0.0, least))))

    def apart(self, wider: "Rates") -> tuple[Array, Array]:
        """P at least and Q at most of this event and of a wider one, all four at once, each by itself."""
        part = (1 - self.confidence) / 4
        bounds = [
            (
                clopper_pearson(each.positives, each.runs, part)[0],
                clopper_pearson(each.false_positives, each.runs, part)[1],
            )
            for each in (self, wider)
        ]
        return np.array([low for low, _ in bounds]), np.array([high for _, high in bounds])

    def _corners(self) -> _Corners:
        """The line of equal evidence, cut into pieces; each corner is outside its piece, so that none is better."""
        from scipy.special import ndtr, ndtri

        alpha, w = 1 - self.confidence, self.weight
        if not _LITTLE <= w <= 1 - _LITTLE:
            of_likely = _LITTLE if w < _LITTLE else 1 - _LITTLE
            levels = np.array([alpha * of_likely]), np.array([alpha * (1 - of_likely)])
            return _Corners(
                _low(self.positives, self.runs, levels[0]), _high(self.false_positives, self.runs, levels[1])
            )
        both, each = -ndtri((1 - _BOX) * alpha), -ndtri(_BOX * alpha / 2)
        of_p = np.linspace((both - math.sqrt(1 - w) * each) / math.sqrt(w), each, _POINTS + 1)
        of_q = (both - math.sqrt(w) * of_p) / math.sqrt(1 - w)
        return _Corners(
            _low(self.positives, self.runs, ndtr(-of_p[1:])), _high(self.false_positives, self.runs, ndtr(-of_q[:-1]))
        )


def weight(likely: float, rare: float) -> float:
    """P's share of the variance of ln P/Q, for events with about these probabilities."""
    of_p, of_q = (max((1 - each) / max(each, 1e-12), 1e-12) for each in (likely, rare))
    return of_p / (of_p + of_q)


def expected(likely: Array, rare: Array, runs: float, confidence: float) -> _Corners:
    """What `Rates` would say of P and Q at best, if events with these probabilities showed as often as expected."""
    from scipy.special import ndtri

    likely, rare = np.clip(likely, 1e-300, 1.0), np.clip(rare, 0.0, 1.0)
    of_p = (1 - likely) / (runs * likely)
    of_q = (1 - rare) / (runs * np.maximum(rare, 1 / runs))
    z = float(ndtri(confidence)) / np.sqrt(np.maximum(of_p + of_q, 1e-300))
    lower = likely * np.exp(-z * of_p)
    upper = np.minimum((rare + np.where(rare * runs < 1, -math.log(1 - confidence) / runs, 0)) * np.exp(z * of_q), 1.0)
    return _Corners(lower, upper)


def expected_apart(likely: Array, rare: Array, runs: float, confidence: float) -> tuple[Array, Array]:
    """What `Rates.apart` would say of two events with these probabilities, about."""
    from scipy.special import ndtri

    z = float(ndtri(1 - (1 - confidence) / 4))
    off = [z * np.sqrt(p * (1 - p) / runs) for p in (likely, rare)]
    return np.maximum(likely - off[0], 0.0), np.minimum(rare + off[1] + 1 / runs, 1.0)


def compose_nested(likely: Array, rare: Array, queries: int, delta: float) -> float:
    """The least ε of T independent queries, each of which shows two nested events of probabilities P ≥ and Q ≤ these.

    All tests of D against D′ make a convex set of (Q, P), which holds these two points and (0, 0) and (1, 1). So a
    mechanism with three outcomes, whose set is the hull of these, can be made from what is released, and composing
    keeps that so (Blackwell 1951; Dong, Roth, Su 2022, Theorem 2.10). A point inside the hull of the others adds
    nothing.
    """
    alone = max(binary(float(p), float(q), queries, delta) for p, q in zip(likely, rare, strict=True))
    p, q = (np.diff([0.0, *each, 1.0]) for each in (likely, rare))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(p) - np.log(q)
    if p.min() <= 0 or q.min() <= 0 or np.any(np.diff(ratio) >= 0):
        return alone
    return max(alone, composed(np.log(p), np.log(q), np.ones(3, dtype=np.int64), queries, delta))
