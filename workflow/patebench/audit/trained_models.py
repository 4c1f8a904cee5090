"""Audits of models that are trained with noise, on two neighbouring data sets.

`audit_noise` tests whether noise changes the model: models trained without noise and with very large noise must not be
equal bit for bit. The other audits test whether the stated μ or ε of one step is too small. `audit_means` computes the
exact μ of a Gaussian release from its means. `audit_release` and `audit_step` compute lower bounds from runs.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.subsampled_gaussian import SubsampledGaussian
from patebench.audit.estimates import Rates, weight
from patebench.audit.verdict import Verdict
from patebench.core.text import in_json

Array = NDArray[np.floating]

#: Noise multiplier so large that the noise dominates any signal if it reaches the model.
DROWNING = 1e6

#: Quantiles of the runs that `audit_step` tries as thresholds.
_SHARES = 1 - np.geomspace(1e-3, 0.7, 24)

#: One run out of this number chooses the threshold of the event; the others count the event.
CHOOSING = 5


@dataclass(frozen=True)
class Audited:
    """Comparison of the `stated` ε or μ with its `audited` lower bound; `how` describes the method in words."""

    stated: float
    audited: float
    how: str

    @property
    def verdict(self) -> Verdict:
        return Verdict.of(self.stated, self.audited)

    def to_json(self) -> dict[str, Any]:
        values = {"stated": in_json(self.stated), "audited": in_json(self.audited)}
        return {**values, "verdict": self.verdict.value, "how": self.how}


#: Function that trains a model and returns its arrays. Arguments: True for a data set or False for its neighbour, noise
#: multiplier, number of a random stream.
Train = Callable[[bool, float, int], Sequence[Array]]


def audit_noise(train: Train, stated: float) -> Audited:
    """Audit `stated`, the stated ε of a training: test if noise changes the model.

    `train` (see `Train`) trains four models, all with the same batches and initial weights: one without noise, two with
    very large noise, and one with very large noise on a neighbouring data set. The audited ε is ∞ if the first three
    models are equal but the neighbour's model differs from them. Otherwise it is 0.
    """
    plain, noisy, again = (train(True, noise, stream) for noise, stream in ((0.0, 0), (DROWNING, 0), (DROWNING, 1)))
    neighbour = train(False, DROWNING, 0)
    if not (equal_models(plain, noisy) and equal_models(plain, again)):
        return Audited(stated, 0.0, f"models trained with σ = 0 and σ = {DROWNING:g} differ")
    if equal_models(plain, neighbour):
        return Audited(stated, 0.0, "neither noise nor the change of the data alters the model")
    words = f"models trained with σ = 0 and σ = {DROWNING:g} are the same bit for bit, but the neighbour's differs"
    return Audited(stated, math.inf, words)


def equal_models(one: Sequence[Array], other: Sequence[Array]) -> bool:
    """Return True if two models are equal bit for bit."""
    return len(one) == len(other) and all(
        a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        for a, b in zip(one, other, strict=True)
    )


def audit_means(here: Array, there: Array, deviation: float, stated: float) -> Audited:
    """Audit the μ of one Gaussian release (Gaussian DP) exactly, from its means on two neighbours.

    N(a, s²I) and N(b, s²I) are as distinguishable as N(0, 1) and N(‖a − b‖/s, 1) (Dong, Roth, Su 2022, Theorem 2.7).

    Parameters
    ----------
    here, there : means a and b of the release on two neighbours
    deviation : standard deviation s of the noise
    stated : stated μ
    """
    distance = float(np.linalg.norm(here.astype(np.float64) - there.astype(np.float64)))
    mu = distance / deviation if deviation > 0 else math.inf if distance else 0.0
    return Audited(stated, mu, "the means of two neighbours, and the noise that is stated")


def audit_release(here: Array, there: Array, direction: Array, confidence: float, stated: float) -> Audited:
    """Audit the μ of one release (Gaussian DP), by a lower bound from runs on two neighbouring data sets.

    The runs count an event: the projection on `direction` exceeds a threshold. Separate runs choose the threshold, so
    that the bound holds with probability `confidence` for any distribution of the release.

    Parameters
    ----------
    here, there : (runs, features) releases on the two data sets
    direction : (features,) difference of the means on the two data sets
    stated : stated μ
    """
    sides = here.astype(np.float64) @ direction, there.astype(np.float64) @ direction
    part = len(here) // CHOOSING
    thresholds = np.quantile(np.concatenate([side[:part] for side in sides]), np.linspace(0.02, 0.98, 49))
    mu = _bound_mu(sides, dict.fromkeys(thresholds.tolist(), 0.5), confidence, 1.0)
    return Audited(stated, mu, f"{len(here)} runs each, {100 * confidence:.4g}% confidence")


def _bound_mu(sides: tuple[Array, Array], thresholds: Mapping[float, float], confidence: float, rate: float) -> float:
    """Return a lower bound on μ (Gaussian DP) from the number of runs with a value above a threshold.

    Parameters
    ----------
    sides : two arrays (runs,), the values on each of two neighbouring data sets. The first fifth of the runs chooses
        the threshold; the other runs count values above it
    thresholds : mapping from each candidate threshold to the weight of its event (see `Rates.weight`)
    rate : subsampling rate, see `Rates.mu`
    """

    def mu(runs: slice, threshold: float) -> float:
        positives, false_positives = (float(np.sum(side[runs] > threshold)) for side in sides)
        return Rates(positives, false_positives, len(sides[0][runs]), confidence, thresholds[threshold]).mu(rate)

    part = len(sides[0]) // CHOOSING
    best = max(thresholds, key=lambda threshold: mu(slice(part), threshold))
    return mu(slice(part, None), best)


def audit_step(
    present: Array, absent: Array, stated: SubsampledGaussian, delta: float, confidence: float = 0.999
) -> Audited:
    """Audit the ε of one step of DP-SGD at `delta`, by a lower bound from runs with and without a canary.

    The canary's gradient has the clipping norm and all others are 0. The noisy sum is projected on the canary's
    gradient (Nasr et al. 2023, *Tight auditing of differentially private machine learning*). These gradients are the
    worst case of a subsampled Gaussian mechanism.

    Parameters
    ----------
    present, absent : (runs,) projected noisy sums in runs with the canary, and in runs without it, in units of the
        clipping norm
    stated : subsampled Gaussian mechanism that the training claims to be; its ε for one step is audited
    """
    part = len(present) // CHOOSING
    thresholds = np.quantile(present[:part], _SHARES).tolist()
    weights = {each: weight(*(float(np.mean(side[:part] > each)) for side in (present, absent))) for each in thresholds}
    mu = _bound_mu((present, absent), weights, confidence, stated.rate)
    words = f"{len(present)} steps with a canary and as many without, {100 * confidence:.4g}% confidence"
    audited = SubsampledGaussian(1 / mu, stated.rate, 1).epsilon(delta) if mu > 0 else 0.0
    return Audited(SubsampledGaussian(stated.noise, stated.rate, 1).epsilon(delta), audited, words)
