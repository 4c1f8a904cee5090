"""Trainers of students that also learn from unlabelled samples: steps, learning-rate schedule, EMA of the weights.

A method adds its objective, the terms of the loss of one step. One epoch passes once over the whole pool.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.features.views import Views
from patebench.models.architectures import untrained_network
from patebench.models.device import device
from patebench.models.optimisers import AdamW, ema_copy, ema_update
from patebench.students.interface import StudentConfig, StudentData

#: Minimum number of samples of a large pool.
LARGE = 2000


@dataclass(frozen=True)
class Batch:
    """The samples of one step: `x` (samples, …) of the pool, and `labelled` samples with their released labels `y`.

    All samples are standardised, and `views` makes random views of them. `done` is the share of the training's steps
    taken before this one, in [0, 1).
    """

    x: Tensor
    labelled: Tensor
    y: Tensor
    views: Views
    done: float


#: The terms of the loss, by name, from a batch, the student and the EMA of the student.
Objective = Callable[[Batch, nn.Module, nn.Module], Mapping[str, Tensor]]


@dataclass(frozen=True, kw_only=True)
class SemiSupervisedSettings:
    """Settings of AdamW with one cycle of the learning rate up to `learning_rate`, and of an EMA with `decay`.

    A step takes `batch` samples of the pool and `labelled` samples with labels.
    """

    epochs: int
    batch: int
    labelled: int = 64
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2
    decay: float = 0.99


def batch_and_epochs(data: StudentData, config: StudentConfig, *, batch: int, small: int, large: int) -> dict[str, int]:
    """Return the settings "batch" (samples per step: `batch`, or less for a small pool) and "epochs" (`epochs_for`)."""
    batch = min(batch, max(16, len(data.pool) // 8))
    return {"batch": batch, "epochs": epochs_for(data, config, small=small, large=large)}


def epochs_for(data: StudentData, config: StudentConfig, *, small: int, large: int) -> int:
    """Return the number of epochs in `config` or, if None, `small` for a small pool and `large` for a large one."""
    return config.epochs or (small if len(data.pool) < LARGE else large)


def model_for(data: StudentData, config: StudentConfig, *, large: str = "small-cnn") -> str:
    """Return the name of the model in `config`, or else one for the pool.

    The latter is mlp for tables and student-cnn for colour images. For grey images it is small-cnn, or `large` if the
    pool is large.
    """
    if config.model:
        return config.model
    if data.pool.ndim != 4:
        return "mlp"
    if data.pool.shape[1] > 1:
        return "student-cnn"
    return "small-cnn" if len(data.pool) < LARGE else large


class PoolTrainer:
    """Base class of trainers that learn from the whole pool, with batches, predictions by the EMA, and checkpoints.

    `scale` is a module that scales samples for the network. `parts` contains all modules, optimisers and schedules that
    change in training, by name; "ema" is the student.
    """

    recipe = "own"
    model: str
    epochs: int
    parts: dict[str, Any]

    def __init__(self, data: StudentData, settings: Any, scale: nn.Module, fill: float) -> None:
        self.epochs, self.settings = settings.epochs, asdict(settings)
        self._batch, self._labelled = settings.batch, settings.labelled
        self.device = device()
        pool = torch.from_numpy(data.pool).to(self.device)
        self.scale, self.x, self.labelled = scale, scale(pool), torch.from_numpy(data.labelled)
        self.y = torch.from_numpy(data.labels[data.labelled]).to(self.device)
        self.views, self.step = Views(fill=fill), 0

    def batches(self, order: Tensor, steps: int) -> Iterator[Batch]:
        """Yield the batches of an epoch: the pool in this `order` (samples,), each with random labelled samples.

        `steps` is the number of steps of the whole training.
        """
        for chosen in order.split(self._batch):  # type: ignore[no-untyped-call]
            drawn = torch.randint(len(self.labelled), (self._labelled,))
            yield Batch(self.x[chosen], self.x[self.labelled[drawn]], self.y[drawn], self.views, self.step / steps)

    def logits(self, x: Tensor) -> Tensor:
        """Return the student's logits (samples, classes) for scaled samples `x`."""
        logits: Tensor = self.parts["ema"](x)
        return logits

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        self.parts["ema"].eval()
        return self.views.predict(self.logits, self.scale, x, self.device)

    def state(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.parts.items()} | {"step": self.step}

    def restore(self, state: dict[str, Any]) -> None:
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        self.step = state["step"]


class SemiSupervisedTrainer(PoolTrainer):
    """Trainer of one network by an objective; the EMA of its weights is the student that predicts.

    `modules` are further modules that change in training, such as averages of the objective; checkpoints include them.
    """

    def __init__(
        self,
        data: StudentData,
        model: str,
        settings: SemiSupervisedSettings,
        objective: Objective,
        **modules: nn.Module,
    ) -> None:
        self.model, self.objective, self._decay = model, objective, settings.decay
        self.net, standardise = untrained_network(model, data.pool, data.classes)
        super().__init__(data, settings, standardise, fill=standardise.background)
        self.ema = ema_copy(self.net)
        for module in modules.values():
            module.to(self.device)
        self.steps = settings.epochs * math.ceil(len(self.x) / settings.batch)
        self.optimiser = AdamW(
            self.net.parameters(), settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        # The warm-up needs a cycle of at least 20 steps; a shorter training ends before its cycle does.
        cycle = max(self.steps, 20) + 1
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimiser, settings.learning_rate, total_steps=cycle, pct_start=0.1
        )
        self.parts = {
            "net": self.net, "ema": self.ema, "optimiser": self.optimiser, "schedule": self.schedule, **modules
        }  # fmt: skip

    def epoch(self) -> dict[str, float]:
        """Pass once over the pool; return the mean of each term of the objective."""
        self.net.train()
        terms = [self._step(batch) for batch in self.batches(torch.randperm(len(self.x)), self.steps)]
        return {name: float(torch.stack([step[name] for step in terms]).mean()) for name in terms[0]}

    def _step(self, batch: Batch) -> dict[str, Tensor]:
        self.optimiser.zero_grad(set_to_none=True)
        terms = self.objective(batch, self.net, self.ema)
        torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.schedule.step()
        self.step += 1
        ema_update(self.ema, self.net, self.step, self._decay)
        return {name: term.detach() for name, term in terms.items()}
