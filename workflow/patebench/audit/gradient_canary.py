"""An audit of a step of DP-SGD by a canary: a sample with a gradient that is clipped, where no other has any.

Whoever sees the noisy sum looks along that direction and guesses whether the canary was among the samples (Nasr et al.
2023, *Tight auditing of differentially private machine learning*, whose strongest adversary this is). Where a step does
what it states, this is the worst case of its theorem, so the least noise that fits the guesses is near the stated one.
"""

import math

import numpy as np

from patebench.accounting.subsampled_gaussian import SubsampledGaussian
from patebench.audit.rates import Rates, weight
from patebench.audit.trained_models import CHOOSING, Array, Audited

#: Thresholds are at these shares of the runs.
_SHARES = 1 - np.geomspace(1e-3, 0.7, 24)


def audit_step(
    present: Array, absent: Array, stated: SubsampledGaussian, delta: float, confidence: float = 0.999
) -> Audited:
    """The least ε at δ of one step, from as many runs (runs,) with the canary among the samples as without it.

    A run is the noisy sum along the canary's direction, in units of the clipping norm. The event is that it is above a
    threshold, and the least μ that allows for how often it showed is that of `Rates.mu`, at the stated rate.
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
    """ε of one step with that noise."""
    return 0.0 if math.isinf(noise) else SubsampledGaussian(noise, stated.rate, 1).epsilon(delta)
