"""The audit of one PET-DL training, for the stage `train_petdl`: measured with the very settings of that training.

First whether noise reaches the student at all, on a few of the samples. Where it does, the worst pair of neighbours of
each sort of release: what the Gaussian mechanism loses on it, and runs of the release itself.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patebench.accounting.independent import gaussian_dp
from patebench.audit.trained_models import Audited, exact, noise_reaches, sampled
from patebench.audit.verdict import Verdict
from patebench.core.text import in_json
from patebench.petdl import noisy_sums
from patebench.petdl.form import Form, Settings, Streams
from patebench.petdl.noisy_sums import Summand
from patebench.petdl.student import Knowledge, PetdlStudent

#: On how many public samples the audit trains, in batches of how many, for one epoch of each stage.
_SAMPLES, _BATCH = 64, 32

#: Runs of one release on each of two neighbours, vectors of so many entries, and the confidence of what they show.
_RUNS, _ENTRIES, _CONFIDENCE = 2000, 8, 0.999

#: Makes an untrained student for a pool, from a seed.
Make = Callable[..., PetdlStudent]


def audit(form: Form, settings: Settings, delta: float, known: Knowledge, x: Tensor, make: Make) -> dict[str, Any]:
    """What a training loses at least, as an ε at δ, and the verdict on what is stated of it."""
    reaches = noise_reaches(_training(form, settings, known, x, make), form.bound(settings, delta).epsilon)
    found = [] if reaches.audited else _releases(form, settings, known.teachers, len(x))
    mu = math.sqrt(sum(each.count * max(each.by_means.audited, each.by_runs.audited) ** 2 for each in found))
    epsilon = max(reaches.audited, gaussian_dp(mu, delta))
    verdicts = [reaches.verdict, *(verdict for each in found for verdict in each.verdicts)]
    order = (Verdict.VIOLATED, Verdict.VACUOUS, Verdict.HOLDS)
    return {
        "audited": in_json(epsilon),
        "verdict": next(each for each in order if each in verdicts).value,
        "audit": {"noise": reaches.to_json(), "releases": [each.to_json() for each in found]},
    }


@dataclass(frozen=True)
class _Found:
    """What the audit of one release of a sort found, of which there are so many."""

    sort: Summand
    count: int
    by_means: Audited
    by_runs: Audited

    @property
    def verdicts(self) -> tuple[Verdict, Verdict]:
        return self.by_means.verdict, self.by_runs.verdict

    def to_json(self) -> dict[str, Any]:
        mu = {"means": self.by_means.to_json(), "runs": self.by_runs.to_json()}
        return {"sort": self.sort.name.lower().replace("_", "-"), "count": self.count, "mu": mu}


def _training(
    form: Form, settings: Settings, known: Knowledge, x: Tensor, make: Make
) -> Callable[[bool, float, int], list[NDArray[np.floating]]]:
    """Trains on a few samples, on what is known or on its neighbour, where the first teacher says another thing."""
    few = min(_SAMPLES, len(x))
    hints = min(settings.hint_epochs, 1)
    short = replace(settings, hint_epochs=hints, distillation_epochs=1, batch=_BATCH, samples=few)
    here = known.first(few)
    there = replace(here, probabilities=here.probabilities.clone())
    there.probabilities[0] = here.probabilities[0].roll(1, -1)  # of every sample, what it said of another class

    def train(side: bool, noise: float, draw: int) -> list[NDArray[np.floating]]:
        student, learnt = make(x[:few], seed=0), here if side else there
        streams = Streams(0, noises=draw)
        form.learn(student, student.samples(x[:few]), learnt, replace(short, noise=noise), streams, lambda epoch: None)
        return [each.cpu().numpy() for each in student.state()]

    return train


def _releases(form: Form, settings: Settings, teachers: int, samples: int) -> list[_Found]:
    """The audit of one release of each sort that the form makes."""
    found = []
    for sort, count in form.releases(settings, samples).items():
        stated, deviation = noisy_sums.mu(settings.noise, {sort: 1}), settings.noise * form.clip_of(sort, settings)
        pair = _worst_pair(sort, teachers, 10 * form.clip_of(sort, settings))
        rng = torch.Generator().manual_seed(0)

        def runs(side: Tensor, of: Settings, number: int, sort: Summand = sort, rng: Any = rng) -> NDArray[Any]:
            return np.stack([np.asarray(form.release(side, sort, of, rng)) for _ in range(number)])

        here, there = (runs(side, replace(settings, noise=0.0), 1)[0] for side in pair)
        drawn = {True: runs(pair[0], settings, _RUNS), False: runs(pair[1], settings, _RUNS)}
        by_runs = sampled(lambda side, _, drawn=drawn: drawn[side], here - there, _RUNS, _CONFIDENCE, stated)  # type: ignore[misc]
        found.append(_Found(sort, count, exact(here, there, deviation, stated), by_runs))
    return found


def _worst_pair(sort: Summand, teachers: int, length: float) -> tuple[Tensor, Tensor]:
    """Vectors of all teachers (teachers, entries) on two neighbours, longer than the clip.

    The teacher that differs has opposite ones, or, where no entry may be negative, orthogonal ones.
    """
    here = torch.zeros(teachers, _ENTRIES)
    here[:, 0] = length
    there = here.clone()
    there[0] = -here[0] if sort is Summand.VECTOR else here[0].roll(1)
    return here, there
