"""The loop that every student learns in: progress, learning curve, early stopping, checkpoints.

What is learnt depends on the lesson alone. `watch` may look at anything, such as the test set, to draw a curve: what it
returns is written down and never read.
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

from patebench.core.files import atomic
from patebench.students import STUDENTS, refuse_choice
from patebench.students.lesson import Approach, Lesson, Student, Training

log = logging.getLogger("patebench")

#: One row for each epoch: its number under "epoch", then what was measured, by name.
Curve = list[dict[str, float]]
Watch = Callable[[Student], Mapping[str, float]]

#: So often in the course of a training its student is looked at: the accuracies of the curve, and early stopping, …
_LOOKS = 20
#: … which sees so many samples of the pool …
_PROBES = 1000
#: … and stops when none of them has changed its label for so many looks in a row.
_PATIENCE = 5


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where the state of a training is kept while it lasts; `identity` says of which one, `seconds` how often."""

    path: Path
    identity: str
    seconds: float = 60.0


@dataclass
class _Session:
    """All that changes from epoch to epoch."""

    training: Training
    done: int = 0
    steady: int = 0
    probes: NDArray[np.int64] | None = None
    curve: Curve = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        probes = None if self.probes is None else torch.from_numpy(self.probes)
        own = {"done": self.done, "steady": self.steady, "probes": probes, "curve": self.curve}
        return {**own, "training": self.training.state(), "random": torch.get_rng_state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.training.restore(state["training"])
        self.done, self.steady, self.curve = state["done"], state["steady"], state["curve"]
        self.probes = None if state["probes"] is None else state["probes"].numpy()
        torch.set_rng_state(state["random"])

    def look(self, pool: NDArray[Any]) -> None:
        """Note the labels that the student gives to some of the pool, and how often in a row they were the same."""
        labels = self.training.log_probabilities(pool[:_PROBES]).argmax(1)
        same = self.probes is not None and np.array_equal(labels, self.probes)
        self.probes, self.steady = labels, self.steady + 1 if same else 0


def learn(
    lesson: Lesson,
    approach: Approach,
    *,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
    watch: Watch | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[Training, Curve]:
    """Train a student; it and its learning curve are the same whether or not the training was interrupted.

    `progress` is called with (epochs done, epochs in all). Training ends early when the student has made up its mind
    about the pool, which is public.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for key in ("model", "recipe"):
            if getattr(approach, key) is not None:
                refuse_choice(approach.method, key)
        session = _Session(STUDENTS.load(approach.method)(lesson, approach, seed))
        if checkpoint:
            _resume(session, checkpoint)
        _run(session, lesson, progress, watch, checkpoint)
    if checkpoint:
        checkpoint.path.unlink(missing_ok=True)
    return session.training, session.curve


def _run(
    session: _Session,
    lesson: Lesson,
    progress: Callable[[int, int], None] | None,
    watch: Watch | None,
    checkpoint: Checkpoint | None,
) -> None:
    training, saved = session.training, time.monotonic()
    between = math.ceil(training.epochs / _LOOKS)
    while session.done < training.epochs and session.steady < _PATIENCE:
        row = training.epoch()
        session.done += 1
        if session.done % between == 0 or session.done == training.epochs:
            session.look(lesson.pool)
            row |= watch(training) if watch else {}
        session.curve.append({"epoch": session.done, **row})
        if checkpoint and time.monotonic() - saved >= checkpoint.seconds:
            _save(session, checkpoint)
            saved = time.monotonic()
        if progress:
            progress(session.done, training.epochs)


def _save(session: _Session, checkpoint: Checkpoint) -> None:
    with atomic(checkpoint.path) as temporary:
        torch.save({"identity": _identity(session, checkpoint), "session": session.state()}, temporary)


def _identity(session: _Session, checkpoint: Checkpoint) -> str:
    """Which training a state is of: what the caller says, how the method decided to learn, and with which torch."""
    training = session.training
    how = (training.model, training.recipe, training.epochs, sorted(training.settings.items()), torch.__version__)
    return f"{checkpoint.identity} {how}"


def _resume(session: _Session, checkpoint: Checkpoint) -> None:
    """Go on from the checkpoint if there is one, and it is sound and of this very training."""
    if not checkpoint.path.is_file():
        return
    try:
        kept = torch.load(checkpoint.path, weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, UnpicklingError, zipfile.BadZipFile) as fault:
        log.warning("%s: can not be read (%s); training starts anew", checkpoint.path, type(fault).__name__)
        return
    if kept.get("identity") != _identity(session, checkpoint):
        log.warning("%s: is of another training; this one starts anew", checkpoint.path)
        return
    session.restore(kept["session"])
    log.info("goes on after epoch %d, from %s", session.done, checkpoint.path)
