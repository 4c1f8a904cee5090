"""The training loop of all students: progress, learning curve, early stopping, checkpoints.

A student depends on its data and config alone. `evaluate` may look at anything, such as the test set, to draw the
learning curve: what it returns is recorded and never read.
"""

import logging
import math
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from patebench.core.checks import check_finite
from patebench.core.files import atomic
from patebench.models.network import seeded
from patebench.students import STUDENTS, refuse_choice
from patebench.students.interface import Student, StudentConfig, StudentData, StudentTrainer

log = logging.getLogger("patebench")

#: One row for each epoch: its number under "epoch", then what was measured, by name.
Curve = list[dict[str, float]]
#: Measures a student: numbers by name.
Evaluate = Callable[[Student], Mapping[str, float]]
#: Called with (epochs done, epochs in all).
Progress = Callable[[int, int], None]

#: A training has so many evaluations, spread evenly, for the learning curve and for early stopping, …
_EVALUATIONS = 20
#: … which compares the student's predictions for so many samples of the pool …
_PROBE_SAMPLES = 1000
#: … and ends the training when so many evaluations in a row changed none of them.
_PATIENCE = 5

#: Raise this when the state of a training is laid out in another way: older checkpoints are then not used.
_CHECKPOINT_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A file that holds the state of a training while it lasts, written every `seconds`.

    `identity` names the training: a checkpoint with another one is not used.
    """

    path: Path
    identity: str
    seconds: float = 60.0


@dataclass
class _TrainingState:
    """All that changes from epoch to epoch.

    `probe_predictions` (samples,) are the labels predicted at the last evaluation, and `unchanged` is the number of
    evaluations in a row that changed none of them.
    """

    trainer: StudentTrainer
    epochs_done: int = 0
    unchanged: int = 0
    probe_predictions: NDArray[np.int64] | None = None
    curve: Curve = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        probes = self.probe_predictions
        return {
            "epochs_done": self.epochs_done,
            "unchanged": self.unchanged,
            "probe_predictions": None if probes is None else torch.from_numpy(probes),
            "curve": self.curve,
            "trainer": self.trainer.state(),
            "random": torch.get_rng_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.trainer.restore(state["trainer"])
        self.epochs_done, self.unchanged, self.curve = state["epochs_done"], state["unchanged"], state["curve"]
        probes = state["probe_predictions"]
        self.probe_predictions = None if probes is None else probes.numpy()
        torch.set_rng_state(state["random"])

    def probe(self, pool: NDArray[Any]) -> None:
        """Predict some of the pool, and count how often in a row the predictions were the same."""
        predicted = self.trainer.log_probabilities(pool[:_PROBE_SAMPLES])
        what = f"the predictions of the student are NaN after epoch {self.epochs_done}"
        check_finite(what, predicted, pool, infinite=True)
        labels = predicted.argmax(1)
        same = self.probe_predictions is not None and np.array_equal(labels, self.probe_predictions)
        self.probe_predictions, self.unchanged = labels, self.unchanged + 1 if same else 0


def train(
    data: StudentData,
    config: StudentConfig,
    *,
    seed: int,
    progress: Progress | None = None,
    evaluate: Evaluate | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[StudentTrainer, Curve]:
    """Train a student on `data` as `config` says, and return it with its learning curve.

    Same data, config and seed: same student, whether or not the training was interrupted, and whatever `evaluate`
    measures. Training ends early when the predictions for the pool, which is public, no longer change. With a
    `checkpoint`, an interrupted training continues from there; its file is removed at the end.

    Raises PatebenchError for an unknown method, model or recipe, or an option that the method does not take, and
    NotFiniteError where losses or predictions are NaN.
    """
    with seeded(seed):
        for option in ("model", "recipe"):
            if getattr(config, option) is not None:
                refuse_choice(config.method, option)
        state = _TrainingState(STUDENTS.load(config.method)(data, config, seed))
        if checkpoint:
            _resume(state, checkpoint)
        _run(state, data, progress, evaluate, checkpoint)
    if checkpoint:
        checkpoint.path.unlink(missing_ok=True)
    return state.trainer, state.curve


def _run(
    state: _TrainingState,
    data: StudentData,
    progress: Progress | None,
    evaluate: Evaluate | None,
    checkpoint: Checkpoint | None,
) -> None:
    trainer, saved = state.trainer, time.monotonic()
    interval = math.ceil(trainer.epochs / _EVALUATIONS)
    while state.epochs_done < trainer.epochs and state.unchanged < _PATIENCE:
        row = trainer.epoch()
        state.epochs_done += 1
        for name, value in row.items():
            check_finite(f"the {name} of the student is {value} after epoch {state.epochs_done}", value, data.pool)
        if state.epochs_done % interval == 0 or state.epochs_done == trainer.epochs:
            state.probe(data.pool)
            row |= evaluate(trainer) if evaluate else {}
        state.curve.append({"epoch": state.epochs_done, **row})
        if checkpoint and time.monotonic() - saved >= checkpoint.seconds:
            _save(state, checkpoint)
            saved = time.monotonic()
        if progress:
            progress(state.epochs_done, trainer.epochs)


def _save(state: _TrainingState, checkpoint: Checkpoint) -> None:
    with atomic(checkpoint.path) as temporary:
        torch.save({"identity": _identity(state.trainer, checkpoint), "state": state.state()}, temporary)


def _identity(trainer: StudentTrainer, checkpoint: Checkpoint) -> str:
    """Which training a checkpoint is of: the caller's identity, the method's settings, torch and the file's layout."""
    settings = (trainer.model, trainer.recipe, trainer.epochs, sorted(trainer.settings.items()))
    return f"{checkpoint.identity} {settings} {torch.__version__} {_CHECKPOINT_VERSION}"


def _resume(state: _TrainingState, checkpoint: Checkpoint) -> None:
    """Continue from the checkpoint if there is one, it can be read and it is of this training."""
    if not checkpoint.path.is_file():
        return
    try:
        saved = torch.load(checkpoint.path, weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, UnpicklingError, zipfile.BadZipFile) as fault:
        log.warning("%s: can not be read (%s); training starts anew", checkpoint.path, type(fault).__name__)
        return
    if saved.get("identity") != _identity(state.trainer, checkpoint):
        log.warning("%s: is of another training; this one starts anew", checkpoint.path)
        return
    state.restore(saved["state"])
    log.info("goes on after epoch %d, from %s", state.epochs_done, checkpoint.path)
