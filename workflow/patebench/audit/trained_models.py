"""Audits of private models: releases during training are run on two adjacent ensembles.

The first audit tests whether noise reaches the model. If models trained without noise and with any amount of it are
equal bit for bit, the model is a function of the data alone. The second tests whether two neighbours can be
distinguished better than the stated μ of a step allows: exactly, for the Gaussian mechanism on the worst pair, and by
running the code of the step.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.subsampled_gaussian import SubsampledGaussian
from patebench.audit.estimates import Rates, weight
from patebench.audit.verdict import Verdict
from patebench.core.text import in_json

Array = NDArray[np.floating]

#: Noise multiplier that dominates any signal if the noise reaches the model.
DROWNING = 1e6

#: Quantiles of the runs that `audit_step` tries as thresholds.
_SHARES = 1 - np.geomspace(1e-3, 0.7, 24)

#: One run in this many chooses the threshold of the event; the others count it.
CHOOSING = 5


@dataclass(frozen=True)
class Audited:
    """A lower bound on ε or μ, the stated value, and the method (`how`)."""

    stated: float
    audited: float
    how: str

    @property
    def verdict(self) -> Verdict:
        return Verdict.of(self.stated, self.audited)

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary for strict JSON."""
        found = {name: in_json(value) for name, value in vars(self).items() if name != "how"}
        return {**found, "verdict": self.verdict.value, "how": self.how}


#: Trains on D (True) or on its neighbour with a noise multiplier and a stream number; returns the model's arrays.
Train = Callable[[bool, float, int], Sequence[Array]]


def noise_reaches(train: Train, stated: float) -> Audited:
    """Audit whether noise changes the model; if it does not and the neighbour's model differs, ε is ∞.

    All models are trained with the same public randomness: batches and initial weights.
    """
    plain, noisy, again = (train(True, noise, stream) for noise, stream in ((0.0, 0), (DROWNING, 0), (DROWNING, 1)))
    neighbour = train(False, DROWNING, 0)
    if not (same(plain, noisy) and same(plain, again)):
        return Audited(stated, 0.0, f"models trained with σ = 0 and σ = {DROWNING:g} differ")
    if same(plain, neighbour):
        return Audited(stated, 0.0, "the models of two neighbours are the same, whatever the noise is")
    words = f"models trained with σ = 0 and σ = {DROWNING:g} are the same bit for bit, and the neighbour's is another"
    return Audited(stated, math.inf, words)


def same(one: Sequence[Array], other: Sequence[Array]) -> bool:
    """Return True if two models are equal bit for bit."""
    return len(one) == len(other) and all(
        a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        for a, b in zip(one, other, strict=True)
    )


def exact(here: Array, there: Array, deviation: float, stated: float) -> Audited:
    """Compare the exact μ of one Gaussian release, from its means on two neighbours, with the stated μ.

    N(a, s²I) and N(b, s²I) are as distinguishable as N(0, 1) and N(‖a − b‖/s, 1) (Dong, Roth, Su 2022, Theorem 2.7).
    """
    distance = float(np.linalg.norm(here.astype(np.float64) - there.astype(np.float64)))
    mu = distance / deviation if deviation > 0 else math.inf if distance else 0.0
    return Audited(stated, mu, "the means of two neighbours, and the noise that is stated")


#: Returns a number of releases (runs, features) on D (True) or on its neighbour.
Summand = Callable[[bool, int], Array]


def sampled(release: Summand, direction: Array, runs: int, confidence: float, stated: float) -> Audited:
    """Compare a lower bound on the μ of one release, from `runs` runs on each of two neighbours, with the stated μ.

    The event is that the projection on `direction`, the difference of the means, exceeds a threshold. A part of the
    runs chooses the threshold and the others count, so that the bound holds with the given confidence for any release.
    """
    here, there = (release(side, runs).astype(np.float64) @ direction for side in (True, False))
    part = runs // CHOOSING
    thresholds = np.quantile(np.concatenate([here[:part], there[:part]]), np.linspace(0.02, 0.98, 49))

    def rates(of: slice, threshold: float) -> Rates:
        positives, false_positives = (float(np.sum(values[of] > threshold)) for values in (here, there))
        return Rates(positives, false_positives, float(len(here[of])), confidence)

    best = max(thresholds, key=lambda threshold: rates(slice(part), float(threshold)).mu())
    mu = rates(slice(part, None), float(best)).mu()
    return Audited(stated, mu, f"{runs} runs each, {100 * confidence:.4g}% confidence")


def audit_step(
    present: Array, absent: Array, stated: SubsampledGaussian, delta: float, confidence: float = 0.999
) -> Audited:
    """Return the ε lower bound at δ of one step of DP-SGD, from runs with a canary among the samples and without it.

    The canary's gradient is clipped, and no other sample has any gradient. The attacker projects the noisy sum on that
    direction (Nasr et al. 2023, *Tight auditing of differentially private machine learning*). If a step is implemented
    as stated, this is the worst case of its theorem.

    Parameters
    ----------
    present, absent : (runs,) noisy sums along the canary's direction, in units of the clipping norm
    """
    part = len(present) // CHOOSING

    def rates(threshold: float, of: slice, share: float) -> Rates:
        positives, false_positives = (float(np.sum(runs[of] > threshold)) for runs in (present, absent))
        return Rates(positives, false_positives, float(len(present[of])), confidence, share)

    def seen(threshold: float) -> tuple[float, float]:
        return tuple(float(np.mean(runs[:part] > threshold)) for runs in (present, absent))  # type: ignore[return-value]

    thresholds = [float(each) for each in np.quantile(present[:part], _SHARES)]
    shares = {each: weight(*seen(each)) for each in thresholds}
    best = max(thresholds, key=lambda each: rates(each, slice(part), shares[each]).mu(stated.rate))
    mu = rates(best, slice(part, None), shares[best]).mu(stated.rate)
    words = f"{len(present)} steps with a canary and as many without, {100 * confidence:.4g}% confidence"
    return Audited(_of_one(stated.noise, stated, delta), _of_one(1 / mu if mu > 0 else math.inf, stated, delta), words)


def _of_one(noise: float, stated: SubsampledGaussian, delta: float) -> float:
    """Return the ε of one step with noise multiplier `noise`."""
    return 0.0 if math.isinf(noise) else SubsampledGaussian(noise, stated.rate, 1).epsilon(delta)
