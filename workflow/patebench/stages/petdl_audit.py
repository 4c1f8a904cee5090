"""Audit the training of a PET-DL student, with the settings that the stage `train_petdl` used.

The audit first trains students on a few samples, to check that the noise changes the student. If this check passes,
each kind of noisy sum that a training releases is audited on two neighbouring data sets whose sums differ most. There
are two audits: of the difference of the means relative to the noise, and of many runs of the release.
"""

import math
from collections.abc import Callable
from dataclasses import replace
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

#: Number of public samples, and batch size, in the audit's short training (at most one epoch of hints, one of outputs).
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
    every, releases, squares = [reaches], [], 0.0
    for sort, count in ({} if reaches.audited else form.releases(settings, len(x))).items():
        by_means, by_runs = _audit_sum(form, settings, sort, knowledge.teachers)
        every += by_means, by_runs
        squares += count * max(by_means.audited, by_runs.audited) ** 2
        mu = {"means": by_means.to_json(), "runs": by_runs.to_json()}
        releases.append({"sort": sort.name.lower().replace("_", "-"), "count": count, "mu": mu})
    verdicts = {audited.verdict for audited in every}
    order = (Verdict.VIOLATED, Verdict.VACUOUS, Verdict.HOLDS)
    return {
        "audited": in_json(max(reaches.audited, gaussian_dp(math.sqrt(squares), delta))),
        "verdict": next(verdict for verdict in order if verdict in verdicts).value,
        "audit": {"noise": reaches.to_json(), "releases": releases},
    }


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


def _audit_sum(form: Form, settings: Settings, sort: Summand, teachers: int) -> tuple[Audited, Audited]:
    """Audit a noisy sum that `form` releases, on two neighbouring data sets; return two results.

    `sort` is the kind of sum. The first result is computed from the sums without noise, the second from many runs on
    each data set.
    """
    stated, deviation = noisy_sums.mu(settings.noise, {sort: 1}), settings.noise * form.clip_of(sort, settings)
    pair = _worst_pair(sort, teachers, 10 * form.clip_of(sort, settings))
    rng = torch.Generator().manual_seed(0)

    def release(side: Tensor, of: Settings, number: int) -> NDArray[Any]:
        return np.stack([np.asarray(form.release(side, sort, of, rng)) for _ in range(number)])

    here, there = (release(side, replace(settings, noise=0.0), 1)[0] for side in pair)
    present, absent = (release(side, settings, _RUNS) for side in pair)
    by_runs = audit_release(present, absent, here - there, _CONFIDENCE, stated)
    return audit_means(here, there, deviation, stated), by_runs


def _worst_pair(sort: Summand, teachers: int, length: float) -> tuple[Tensor, Tensor]:
    """Return the vectors of all teachers on two neighbouring data sets, chosen such that their sums differ most.

    The result is two arrays (teachers, entries), which differ only in the row of the first teacher. Each row has L2
    norm `length`. `sort` is the kind of sum; some kinds allow no negative entries.
    """
    here = torch.zeros(teachers, _ENTRIES)
    here[:, 0] = length
    there = here.clone()
    # Opposite vectors differ most; if entries cannot be negative, orthogonal ones do.
    there[0] = -here[0] if sort is Summand.VECTOR else here[0].roll(1)
    return here, there
