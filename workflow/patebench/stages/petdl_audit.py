"""Audit a PET-DL training with its own settings, for the stage `train_petdl`.

The audit first checks, on a few samples, that the noise changes the student. If it does, each kind of noisy sum that
the training releases is audited on the worst pair of neighbours, in two ways: by the difference of the two means
relative to the noise, and by many runs of the release.
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
from patebench.audit.trained_models import Audited, audit_means, audit_noise, audit_release
from patebench.audit.verdict import Verdict
from patebench.core.text import in_json
from patebench.petdl import noisy_sums
from patebench.petdl.form import Form, Settings
from patebench.petdl.noisy_sums import Summand
from patebench.petdl.student import Knowledge, PetdlStudent

#: Numbers of public samples and of samples per batch in the audit's training, which has one epoch per stage.
_SAMPLES, _BATCH = 64, 32

#: Number of runs of a release on each of two neighbours, length of a teacher's vector, and confidence level.
_RUNS, _ENTRIES, _CONFIDENCE = 2000, 8, 0.999

#: Function that makes an untrained student for a pool, from a seed.
Make = Callable[..., PetdlStudent]


def audit(form: Form, settings: Settings, delta: float, knowledge: Knowledge, x: Tensor, make: Make) -> dict[str, Any]:
    """Audit a training of the PET-DL variant `form` with `settings`, and return the results as a dict.

    `audited` is a lower bound on ε at `delta`, `verdict` is the verdict on the stated ε, and `audit` contains the
    result of each test. `knowledge` holds the teachers' outputs on the pool samples `x`. `make` returns an untrained
    student.
    """
    reaches = audit_noise(_make_training(form, settings, knowledge, x, make), form.bound(settings, delta).epsilon)
    audits = [] if reaches.audited else _audit_releases(form, settings, knowledge.teachers, len(x))
    mu = math.sqrt(
        sum(release.count * max(release.by_means.audited, release.by_runs.audited) ** 2 for release in audits)
    )
    epsilon = max(reaches.audited, gaussian_dp(mu, delta))
    every = [reaches, *(audited for release in audits for audited in (release.by_means, release.by_runs))]
    verdicts = {audited.verdict for audited in every}
    order = (Verdict.VIOLATED, Verdict.VACUOUS, Verdict.HOLDS)
    return {
        "audited": in_json(epsilon),
        "verdict": next(verdict for verdict in order if verdict in verdicts).value,
        "audit": {"noise": reaches.to_json(), "releases": [release.to_json() for release in audits]},
    }


@dataclass(frozen=True)
class _ReleaseAudit:
    """Audit results for one kind of noisy sum that a training releases; the sum is audited on two neighbours."""

    sort: Summand
    count: int  # releases of this kind in a training
    by_means: Audited  # from the difference between the means on both data sets
    by_runs: Audited  # from many runs

    def to_json(self) -> dict[str, Any]:
        mu = {"means": self.by_means.to_json(), "runs": self.by_runs.to_json()}
        return {"sort": self.sort.name.lower().replace("_", "-"), "count": self.count, "mu": mu}


def _make_training(
    form: Form, settings: Settings, knowledge: Knowledge, x: Tensor, make: Make
) -> Callable[[bool, float, int], list[NDArray[np.floating]]]:
    """Return the function `train(side, noise, draw)`, with which `audit_noise` trains students on a few samples of `x`.

    The function returns the weights of a student. If `side` is True, the student learns from the teachers' outputs
    `knowledge`. If `side` is False, it learns from a neighbour of `knowledge`, in which the probabilities of the first
    teacher are changed. `noise` is the noise multiplier, and `draw` is the number of the random stream of the noise.
    All students have the same initial weights and batches.
    """
    few = min(_SAMPLES, len(x))
    hints = min(settings.hint_epochs, 1)
    short = replace(settings, hint_epochs=hints, distillation_epochs=1, batch=_BATCH, samples=few)
    here = knowledge.first(few)
    # In the neighbouring outputs, the first teacher differs.
    there = replace(here, probabilities=here.probabilities.clone())
    there.probabilities[0] = here.probabilities[0].roll(1, -1)  # probabilities of all samples, shifted by one class

    def train(side: bool, noise: float, draw: int) -> list[NDArray[np.floating]]:
        student, learnt = make(x[:few], seed=0), here if side else there
        noisy = replace(short, noise=noise)
        form.learn(student, student.samples(x[:few]), learnt, noisy, 0, lambda epoch: None, noises=draw)
        return [array.cpu().numpy() for array in student.state()]

    return train


def _audit_releases(form: Form, settings: Settings, teachers: int, samples: int) -> list[_ReleaseAudit]:
    """Return audit results for each kind of noisy sum that the PET-DL variant `form` releases.

    `samples` is the number of samples on which the student is trained.
    """
    audits = []
    for sort, count in form.releases(settings, samples).items():
        stated, deviation = noisy_sums.mu(settings.noise, {sort: 1}), settings.noise * form.clip_of(sort, settings)
        pair = _worst_pair(sort, teachers, 10 * form.clip_of(sort, settings))
        rng = torch.Generator().manual_seed(0)

        def release(side: Tensor, of: Settings, number: int, sort: Summand = sort, rng: Any = rng) -> NDArray[Any]:
            return np.stack([np.asarray(form.release(side, sort, of, rng)) for _ in range(number)])

        here, there = (release(side, replace(settings, noise=0.0), 1)[0] for side in pair)
        by_means = audit_means(here, there, deviation, stated)
        present, absent = (release(side, settings, _RUNS) for side in pair)
        by_runs = audit_release(present, absent, here - there, _CONFIDENCE, stated)
        audits.append(_ReleaseAudit(sort, count, by_means, by_runs))
    return audits


def _worst_pair(sort: Summand, teachers: int, length: float) -> tuple[Tensor, Tensor]:
    """Return the vectors of all teachers on two neighbouring data sets, chosen such that their sums differ most.

    Each result is an array (teachers, entries). Only the vector of the first teacher differs between them. Each vector
    has L2 norm `length`. Entries may be negative only if the kind of sum `sort` allows it.
    """
    here = torch.zeros(teachers, _ENTRIES)
    here[:, 0] = length
    there = here.clone()
    # Opposite vectors differ most; if entries cannot be negative, orthogonal ones do.
    there[0] = -here[0] if sort is Summand.VECTOR else here[0].roll(1)
    return here, there
