"""Base class of the forms of PET-DL: noisy releases of the teachers' outputs, their ε, and the shared training."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from patebench.core.bound import Bound, Kind
from patebench.core.errors import PatebenchError
from patebench.core.seeds import derive
from patebench.core.text import plural
from patebench.models.augment import random_affine
from patebench.models.network import optimisation, steps
from patebench.models.recipes import MODERN, Recipe
from patebench.petdl.noisy_sums import Summand, epsilon, noise_for
from patebench.petdl.student import Knowledge, PetdlStudent

#: Function that sets the gradients of the student's weights for a batch, from its samples and their positions in the
#: pool.
Backward = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True)
class Settings:
    """Settings of a student's training.

    Parameters
    ----------
    noise : standard deviation of the noise divided by the clipping norm
    hint_epochs : number of epochs in which the student learns hints (outputs of a hidden layer of the teachers)
    distillation_epochs : number of epochs in which the student then learns the teachers' softened outputs
    batch : number of samples per step
    clip : bound on the contribution of one teacher. The published form bounds a teacher's loss (B in the paper). The
        other forms bound the norm of a teacher's gradient, or of its softened outputs
    hint_clip : bound on the norm of a teacher's hints, if the form releases hints
    temperature : temperature at which outputs are softened
    weighted : True to weight a teacher's contribution by its confidence
    samples : number of public samples for the training, taken from the start of the pool; None for the whole pool
    learning_rate : maximum of the one-cycle learning rate
    """

    noise: float
    hint_epochs: int
    distillation_epochs: int
    batch: int
    clip: float = 1.0
    hint_clip: float = 1.0
    temperature: float = 1.0
    weighted: bool = False
    samples: int | None = None
    learning_rate: float = 4e-3

    def steps(self, samples: int) -> int:
        """Return the number of training steps on `samples` samples, in hint learning and distillation together."""
        return (self.hint_epochs + self.distillation_epochs) * math.ceil(samples / self.batch)


def _generator(seed: int, *names: str | int) -> torch.Generator:
    return torch.Generator().manual_seed(derive(seed, *names))


class Form(ABC):
    """Base class of the variants ("forms") of PET-DL (Sun et al. 2019), which train a student on outputs of teachers.

    `kind` states whether the bound on ε is a worst case or only claimed, and `source` cites its theorems. `augments` is
    True if images are augmented in distillation.
    """

    defaults: ClassVar[Settings]
    kind: ClassVar[Kind]
    source: ClassVar[str]
    augments: ClassVar[bool] = False

    @abstractmethod
    def releases(self, settings: Settings, samples: int) -> dict[Summand, int]:
        """Return the number of noisy sums that training on `samples` public samples releases, for each kind of sum.

        The key, a `Summand`, is the kind of vector that each teacher contributes to the sum, such as vectors without
        negative entries.
        """

    @abstractmethod
    def gradients(
        self, student: PetdlStudent, knowledge: Knowledge, settings: Settings, rng: torch.Generator
    ) -> tuple[Backward, Backward]:
        """Return two functions that set the gradients of `student` for a batch, in hint learning and in distillation.

        Both functions take the samples of the batch and their positions in the pool. `knowledge` contains the teachers'
        outputs, and `rng` draws all noise.
        """

    def clip_of(self, summand: Summand, settings: Settings) -> float:
        """Return the clipping norm in `settings` for a teacher's vectors of the kind `summand`."""
        return settings.clip

    def release(self, vectors: Tensor, summand: Summand, settings: Settings, rng: torch.Generator) -> Tensor | None:
        """Return the noisy sum over teachers of `vectors` (teachers, features), computed as in training, for audits.

        `summand` is the kind of `vectors`; `rng` draws the noise. Returns None if the form releases no sums of
        vectors.
        """
        return None

    def learn(
        self,
        student: PetdlStudent,
        x: Tensor,
        knowledge: Knowledge,
        settings: Settings,
        seed: int,
        after_epoch: Callable[[int], None],
        *,
        noises: int = 0,
    ) -> None:
        """Train `student` by hint learning, then by distillation, on public samples and the teachers' outputs for them.

        `x` (samples, …) are the standardised samples, and `knowledge` the teachers' outputs. Both trainings use AdamW
        with a one-cycle learning rate. `after_epoch` is called after each epoch of distillation, with the number of
        these epochs so far.

        `seed` determines batches, augmentation and noise. `noises` is a second seed, of the noise only: trainings with
        different `noises` have the same batches, but different noise.
        """
        hint, distil = self.gradients(student, knowledge, settings, _generator(seed, "noise", noises))
        stages = (
            ("hint", settings.hint_epochs, student.hint_weights(), hint),
            ("distil", settings.distillation_epochs, student.weights(), distil),
        )
        for name, epochs, weights, backward in stages:
            if not epochs:
                continue
            recipe = Recipe(
                optimiser="adamw",
                learning_rate=settings.learning_rate,
                batch=settings.batch,
                epochs=epochs,
                schedule="one-cycle",
                weight_decay=1e-2,
            )
            optimiser, schedule = optimisation(weights, recipe, steps(len(x), recipe))
            order = _generator(seed, f"{name}/order")
            for epoch in range(epochs):
                student.net.train()
                for drawn in torch.randperm(len(x), generator=order).split(settings.batch):  # type: ignore[no-untyped-call]
                    rows = drawn.to(x.device)
                    samples = x[rows]
                    if self.augments and name == "distil" and x.ndim == 4:
                        samples = random_affine(samples, MODERN, order, fill=student.standardise.background)
                    optimiser.zero_grad(set_to_none=True)
                    backward(samples, rows)
                    optimiser.step()
                    schedule.step()
                if name == "distil":
                    after_epoch(epoch + 1)

    def settled(self, options: Mapping[str, Any], samples: int, hints: bool) -> Settings:
        """Return complete settings: those in `options` that are not None, and the form's defaults for the others.

        `samples` is the size of the pool. `hints` is True if the teachers' hints are available; otherwise, the default
        is no hint learning. If `options` contain a target `epsilon` and its `delta`, the setting `noise` is the least
        noise that reaches the target.

        Raises PatebenchError in three cases: `options` request more samples than the pool contains; they request hint
        learning although `hints` is False; no noise reaches the target.
        """
        names = {field.name for field in fields(Settings)}
        chosen = {name: value for name, value in options.items() if name in names and value is not None}
        settings = replace(self.defaults, **({"samples": samples} | chosen))
        used = settings.samples
        assert used is not None
        if used > samples:
            raise PatebenchError(
                f"samples = {used} exceeds the {plural(samples, 'sample')} of the pool; use at most {samples}"
            )
        if settings.hint_epochs and not hints:
            if options.get("hint_epochs"):
                raise PatebenchError(
                    "'hint_epochs' is above 0, but the ensemble stores no hints; set 'hints: block2' for the ensemble,"
                    " or 'hint_epochs: 0'"
                )
            settings = replace(settings, hint_epochs=0)
        if options.get("epsilon") is None:
            return settings
        return replace(settings, noise=noise_for(options["epsilon"], self.releases(settings, used), options["delta"]))

    def bound(self, settings: Settings, delta: float) -> Bound:
        """Return the bound at `delta` on the ε of all noisy sums that a training with `settings` releases.

        The bound is not publishable, because the noise is drawn from a seed and can therefore be reproduced.
        """
        assert settings.samples is not None
        releases = self.releases(settings, settings.samples)
        return Bound(
            epsilon=epsilon(settings.noise, releases, delta),
            delta=delta,
            queries=sum(releases.values()),
            accountant="gdp",
            label="Gaussian DP",
            kind=self.kind,
            publishable=False,
            source=self.source,
        )
