"""Audits of models that are private themselves: what is released while they learn, run on two adjacent ensembles.

Two questions. Does the noise reach the model at all? If models trained with none and with any amount of it are the same
bit for bit, what is handed out is a function of the data alone. And are two neighbours told apart better than a step's
stated μ allows? By what the Gaussian mechanism must be on the worst pair, and by running the step that really runs.
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

#: Noise that would drown everything, if it reached anything.
DROWNING = 1e6

#: Thresholds of `audit_step` are at these shares of the runs.
_SHARES = 1 - np.geomspace(1e-3, 0.7, 24)

#: One of so many runs chooses the threshold of the event; the others count it.
CHOOSING = 5


@dataclass(frozen=True)
class Audited:
    """The least that is lost, as an ε or a μ, beside what is stated, and how that was found."""

    stated: float
    audited: float
    how: str

    @property
    def verdict(self) -> Verdict:
        return Verdict.of(self.stated, self.audited)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that strict JSON can hold."""
        found = {name: in_json(value) for name, value in vars(self).items() if name != "how"}
        return {**found, "verdict": self.verdict.value, "how": self.how}


#: Trains on D (True) or on its neighbour, with so much noise drawn from a stream of that number; the model's arrays.
Train = Callable[[bool, float, int], Sequence[Array]]


def noise_reaches(train: Train, stated: float) -> Audited:
    """Whether noise changes the model: if not, and if the neighbour's is another one, no ε below ∞ holds.

    Both are trained with the same public randomness: batches and initial weights.
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
    """Whether two models are the same, bit for bit."""
    return len(one) == len(other) and all(
        a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        for a, b in zip(one, other, strict=True)
    )


def exact(here: Array, there: Array, deviation: float, stated: float) -> Audited:
    """The μ of one Gaussian release with that deviation, from its means on two neighbours, beside the stated μ.

    N(a, s²I) and N(b, s²I) are apart exactly as N(0, 1) and N(‖a − b‖/s, 1) are (Dong, Roth, Su 2022, Theorem 2.7).
    """
    distance = float(np.linalg.norm(here.astype(np.float64) - there.astype(np.float64)))
    mu = distance / deviation if deviation > 0 else math.inf if distance else 0.0
    return Audited(stated, mu, "the means of two neighbours, and the noise that is stated")


#: So many releases (runs, features) on D (True) or on its neighbour.
Summand = Callable[[bool, int], Array]


def sampled(release: Summand, direction: Array, runs: int, confidence: float, stated: float) -> Audited:
    """A lower bound on the μ of one release, from as many runs on each of two neighbours, beside the stated μ.

    The event is that the projection on `direction`, the difference of the means, is above a threshold. Part of the runs
    choose the threshold, the others count, so that the bound holds with the given confidence whatever is released.
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

    A canary is a sample whose gradient is clipped, where no other sample has any gradient. Whoever sees the noisy sum
    looks along that direction (Nasr et al. 2023, *Tight auditing of differentially private machine learning*). If a
    step does what it states, this is the worst case of its theorem.

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
    """ε of one step with that noise."""
    return 0.0 if math.isinf(noise) else SubsampledGaussian(noise, stated.rate, 1).epsilon(delta)
