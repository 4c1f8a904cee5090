"""The training loop of all students: progress, learning curve, early stopping, checkpoints.

A student depends on its data and config alone. The callback `evaluate` may use anything, such as the test set, to
measure the learning curve: its result is recorded and does not affect the training.
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

import torch
from numpy.typing import NDArray
from torch import Tensor

from patebench.core.checks import check_finite
from patebench.core.files import atomic
from patebench.core.progress import silent
from patebench.models import Progress
from patebench.models.network import seeded
from patebench.students import STUDENTS
from patebench.students.interface import Student, StudentConfig, StudentData, StudentTrainer

log = logging.getLogger("patebench")

#: One row per epoch: the number of the epoch as "epoch", then measured values by name.
Curve = list[dict[str, float]]
#: Callback that measures a student; returns numbers by name.
Evaluate = Callable[[Student], Mapping[str, float]]

#: Number of evenly spaced evaluations of a training, for the learning curve and for early stopping.
_EVALUATIONS = 20
#: Number of samples of the pool whose predictions early stopping compares.
_PROBE_SAMPLES = 1000
#: Number of successive evaluations without a changed prediction after which the training ends.
_PATIENCE = 5

#: Version of the layout of a training's state; checkpoints of other versions are not used.
_CHECKPOINT_VERSION = 3
#: Attributes of a training that a checkpoint stores, besides the states of the trainer and of torch's generator.
_SAVED = ("epochs_done", "unchanged", "probe_predictions", "curve")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """File with the state of an unfinished training; it is written every `seconds` seconds.

    `identity` is text that identifies the training: a file with another identity is not used.
    """

    path: Path
    identity: str
    seconds: float = 60.0


@dataclass
class _Training:
    """State of a student's training: the trainer, and everything that changes from epoch to epoch."""

    trainer: StudentTrainer
    pool: NDArray[Any]
    epochs_done: int = 0
    unchanged: int = 0  # successive evaluations at which no predicted label changed
    probe_predictions: Tensor | None = None  # labels predicted at the last evaluation
    curve: Curve = field(default_factory=list)

    def run(self, progress: Progress, evaluate: Evaluate | None, checkpoint: Checkpoint | None) -> None:
        """Train for all epochs of the trainer, or until its predictions for the pool no longer change.

        `progress` is called after each epoch. `evaluate` is called after evenly spaced epochs and after the last epoch,
        at most 20 times in all. Its results are added to the learning curve. `checkpoint` is written every
        `checkpoint.seconds`.
        """
        trainer, saved = self.trainer, time.monotonic()
        interval = math.ceil(trainer.epochs / _EVALUATIONS)
        while self.epochs_done < trainer.epochs and self.unchanged < _PATIENCE:
            row = trainer.epoch()
            self.epochs_done += 1
            for name, value in row.items():
                check_finite(f"the {name} of the student is {value} after epoch {self.epochs_done}", value, self.pool)
            if self.epochs_done % interval == 0 or self.epochs_done == trainer.epochs:
                self.probe()
                row |= evaluate(trainer) if evaluate else {}
            self.curve.append({"epoch": self.epochs_done, **row})
            if checkpoint and time.monotonic() - saved >= checkpoint.seconds:
                self.save(checkpoint)
                saved = time.monotonic()
            progress(self.epochs_done, trainer.epochs)

    def probe(self) -> None:
        """Predict labels of the first 1,000 samples of the pool, and compare them with those of the last call.

        If no label changed, the attribute `unchanged` increases by 1; otherwise it becomes 0.
        """
        predicted = self.trainer.log_probabilities(self.pool[:_PROBE_SAMPLES])
        fault = f"the predictions of the student are NaN after epoch {self.epochs_done}"
        check_finite(fault, predicted, self.pool, infinite=True)
        labels = torch.from_numpy(predicted.argmax(1))
        same = self.probe_predictions is not None and torch.equal(labels, self.probe_predictions)
        self.probe_predictions, self.unchanged = labels, self.unchanged + 1 if same else 0

    def save(self, checkpoint: Checkpoint) -> None:
        state = {name: getattr(self, name) for name in _SAVED}
        state |= {"trainer": self.trainer.state(), "random": torch.get_rng_state()}
        with atomic(checkpoint.path) as temporary:
            torch.save({"identity": self.identity(checkpoint), "state": state}, temporary)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue from the file of `checkpoint` if it exists, can be read and belongs to this training."""
        if not checkpoint.path.is_file():
            return
        try:
            saved = torch.load(checkpoint.path, weights_only=True)
        except (OSError, RuntimeError, ValueError, EOFError, UnpicklingError, zipfile.BadZipFile) as fault:
            why = type(fault).__name__
            log.warning("checkpoint %s cannot be read (%s); training starts again", checkpoint.path, why)
            return
        if saved.get("identity") != self.identity(checkpoint):
            log.warning("checkpoint %s is of another training; training starts from the beginning", checkpoint.path)
            return
        state = saved["state"]
        self.trainer.restore(state["trainer"])
        for name in _SAVED:
            setattr(self, name, state[name])
        torch.set_rng_state(state["random"])
        log.info("training continues after epoch %d, from the checkpoint %s", self.epochs_done, checkpoint.path)

    def identity(self, checkpoint: Checkpoint) -> str:
        """Return text that identifies this training: `checkpoint.identity`, settings and software versions."""
        trainer = self.trainer
        settings = (trainer.model, trainer.recipe, trainer.epochs, sorted(trainer.settings.items()))
        return f"{checkpoint.identity} {settings} {torch.__version__} {_CHECKPOINT_VERSION}"


def train(
    data: StudentData,
    config: StudentConfig,
    *,
    seed: int,
    progress: Progress = silent,
    evaluate: Evaluate | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[StudentTrainer, Curve]:
    """Train a student on `data` by the method of `config`; return the student and its learning curve.

    The student depends only on data, config and seed, not on interruptions or `evaluate`. Training ends early when the
    student's predictions for the public pool no longer change.

    Parameters
    ----------
    data : the pool and the released labels
    config : name of the student method, and its options
    seed : base of all random draws
    progress : callback for a progress bar, called after each epoch
    evaluate : callback that measures the student for the learning curve
    checkpoint : file from which an interrupted training continues; the file is removed at the end

    Raises
    ------
    PatebenchError
        For data that the method cannot learn from.
    NotFiniteError
        If losses or predictions are NaN.
    """
    with seeded(seed):
        training = _Training(STUDENTS.load(config.method)(data, config, seed), data.pool)
        if checkpoint:
            training.resume(checkpoint)
        training.run(progress, evaluate, checkpoint)
    if checkpoint:
        checkpoint.path.unlink(missing_ok=True)
    return training.trainer, training.curve
