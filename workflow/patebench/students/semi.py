"""What students share that also learn from samples without a label: the steps, the schedule, the averaged weights.

A method adds its objective: what is minimised in one step. One epoch passes once over the whole pool.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.models.average import follow, follower
from patebench.models.precision import reduced
from patebench.students.lesson import Approach, Lesson
from patebench.students.supervised import untrained
from patebench.students.views import Views

#: A pool of so many samples is large.
LARGE = 2000
#: How many samples are labelled at once.
_PREDICT_BATCH = 200


@dataclass(frozen=True)
class Batch:
    """The samples of one step: `x` of the pool, and `labelled` ones with their released labels `y`.

    All are standardised; `views` makes random views of them; `done` is the share of the training before this step.
    """

    x: Tensor
    labelled: Tensor
    y: Tensor
    views: Views
    done: float


#: The terms of what is minimised, by name, from a batch, the student and the average of its weights.
Objective = Callable[[Batch, nn.Module, nn.Module], Mapping[str, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Steps:
    """How the weights move: AdamW, one cycle up to `learning_rate`, weights averaged with `decay`.

    A step takes `batch` samples of the pool and `labelled` ones with labels.
    """

    epochs: int
    batch: int
    labelled: int = 64
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2
    decay: float = 0.99


def steps_for(lesson: Lesson, approach: Approach, *, batch: int, small: int, large: int) -> dict[str, int]:
    """A `batch`, or less for a pool that has few of them, and epochs; see `epochs_for`."""
    batch = min(batch, max(16, len(lesson.pool) // 8))
    return {"batch": batch, "epochs": epochs_for(lesson, approach, small=small, large=large)}


def epochs_for(lesson: Lesson, approach: Approach, *, small: int, large: int) -> int:
    """The epochs asked for, or as many as a small or a large pool can be passed over in seconds or minutes."""
    if approach.epochs is not None and approach.epochs < 1:
        raise PatebenchError(f"epochs = {approach.epochs}; at least one is needed")
    return approach.epochs or (small if len(lesson.pool) < LARGE else large)


def model_for(lesson: Lesson, approach: Approach, *, large: str = "small-cnn") -> str:
    """The network asked for, or one for the pool's shape: colours need a larger one, and `large` pools can bear it."""
    if approach.model:
        return approach.model
    if lesson.pool.ndim != 4:
        return "mlp"
    if lesson.pool.shape[1] > 1:
        return "student-cnn"
    return "small-cnn" if len(lesson.pool) < LARGE else large


class SemiSupervised:
    """The training of one network by an objective; the average of its weights is the student.

    `parts` are what else changes while it learns, such as what the objective keeps count of.
    """

    recipe = "own"

    def __init__(self, lesson: Lesson, model: str, how: Steps, objective: Objective, **parts: nn.Module) -> None:
        self.model = model
        self.how, self.epochs, self.objective, self.settings = how, how.epochs, objective, asdict(how)
        self.net, self.standardise = untrained(self.model, lesson.pool, lesson.classes)
        self.average = follower(self.net)
        self.device = next(self.net.parameters()).device
        for part in parts.values():
            part.to(self.device)
        pool = torch.from_numpy(lesson.pool).to(self.device)
        self.x, self.answered = self.standardise(pool), torch.from_numpy(lesson.answered)
        self.y = torch.from_numpy(lesson.labels[lesson.answered]).to(self.device)
        self.views = Views(fill=self.standardise.background)
        self.steps = how.epochs * math.ceil(len(self.x) / how.batch)
        self.step = 0
        self.optimiser = torch.optim.AdamW(
            self.net.parameters(), how.learning_rate, weight_decay=how.weight_decay, fused=True
        )
        # A shorter cycle has no room for its rise; it is cut off instead.
        cycle = max(self.steps, 20) + 1
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimiser, how.learning_rate, total_steps=cycle, pct_start=0.1
        )
        self.parts: dict[str, Any] = {
            "net": self.net, "average": self.average, "optimiser": self.optimiser, "schedule": self.schedule, **parts
        }  # fmt: skip

    def epoch(self) -> dict[str, float]:
        """Pass once over the pool; the mean of each term of the objective."""
        self.net.train()
        terms = [self._step(batch) for batch in self._batches()]
        return {name: float(torch.stack([each[name] for each in terms]).mean()) for name in terms[0]}

    def _batches(self) -> Iterator[Batch]:
        for chosen in torch.randperm(len(self.x)).split(self.how.batch):  # type: ignore[no-untyped-call]
            known = torch.randint(len(self.answered), (self.how.labelled,))
            labelled, y = self.x[self.answered[known]], self.y[known]
            yield Batch(self.x[chosen], labelled, y, self.views, self.step / self.steps)

    def _step(self, batch: Batch) -> dict[str, Tensor]:
        self.optimiser.zero_grad(set_to_none=True)
        terms = self.objective(batch, self.net, self.average)
        torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.schedule.step()
        self.step += 1
        follow(self.average, self.net, self.step, self.how.decay)
        return {name: term.detach() for name, term in terms.items()}

    @torch.inference_mode()
    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        self.average.eval()
        batches = torch.from_numpy(x).split(_PREDICT_BATCH)  # type: ignore[no-untyped-call]
        with reduced(self.device):
            seen = (self.standardise(batch.to(self.device)) for batch in batches)
            answers = [self.views.answer(self.average, x).cpu() for x in seen]
        found: NDArray[np.float64] = torch.cat(answers).double().log_softmax(1).numpy()
        return found

    def state(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.parts.items()} | {"step": self.step}

    def restore(self, state: dict[str, Any]) -> None:
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        self.step = state["step"]
