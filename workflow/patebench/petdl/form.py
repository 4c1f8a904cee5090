"""Interface of the forms of PET-DL: how knowledge reaches a student, its cost, and the shared training."""

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

#: Progress callback, called after each epoch of distillation with its number from 1.
Done = Callable[[int], None]
#: Sets the gradients of the weights for one batch, from its samples and their positions in the pool.
Backward = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True)
class Settings:
    """Settings of a student's training; `noise` is the standard deviation in units of the clip.

    `clip` bounds the contribution of one teacher: PET-DL's B of a loss, or the norm S of a gradient or of softened
    outputs. `hint_clip` bounds the norm of hints. The first `samples` of the pool are used; None: all.
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
        """Return the number of batches of hint learning and distillation together, over `samples` samples."""
        return (self.hint_epochs + self.distillation_epochs) * math.ceil(samples / self.batch)


@dataclass(frozen=True)
class Streams:
    """Random generators by name: shuffling is public, and noise protects. Each value of `noises` gives other noise."""

    seed: int
    noises: int = 0

    def generator(self, name: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive(self.seed, name))

    def noise(self) -> torch.Generator:
        return torch.Generator().manual_seed(derive(self.seed, "noise", self.noises))


class Form(ABC):
    """One form of PET-DL; `defaults` are its default settings, `augments` is True if it augments images to distil."""

    name: ClassVar[str]
    defaults: ClassVar[Settings]
    kind: ClassVar[Kind]
    source: ClassVar[str]
    augments: ClassVar[bool] = False

    @abstractmethod
    def releases(self, settings: Settings, samples: int) -> dict[Summand, int]:
        """Return the number of noisy releases of each sort over `samples` public samples."""

    @abstractmethod
    def gradients(
        self, student: PetdlStudent, knowledge: Knowledge, settings: Settings, noise: torch.Generator
    ) -> tuple[Backward, Backward]:
        """Return functions that set the gradients of a batch in hint learning, and in distillation."""

    def clip_of(self, sort: Summand, settings: Settings) -> float:
        """Return the norm to which vectors of this sort are clipped."""
        return settings.clip

    def release(self, vectors: Tensor, sort: Summand, settings: Settings, noise: torch.Generator) -> Tensor | None:
        """Return the form's noisy sum of `vectors` (teachers, features), for audits; None if it has no such sum."""
        return None

    def learn(
        self, student: PetdlStudent, x: Tensor, knowledge: Knowledge, settings: Settings, streams: Streams, done: Done
    ) -> None:
        """Train the student on standardised public samples `x`, with the teachers' `knowledge` of them.

        Hint learning comes first, then distillation, each by AdamW with one cycle of learning rates.
        """
        hint, distil = self.gradients(student, knowledge, settings, streams.noise())
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
            order = streams.generator(f"{name}/order")
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
                    done(epoch + 1)

    def settled(self, given: Mapping[str, Any], samples: int, hints: bool) -> Settings:
        """Return all settings for a pool of `samples`; a target `epsilon` at `delta` is replaced by the noise for it.

        Entries of `given` that are None keep the default. Raises PatebenchError for more samples than there are, hint
        learning without hints, or a target that no noise reaches.
        """
        names = {field.name for field in fields(Settings)}
        chosen = {name: value for name, value in given.items() if name in names and value is not None}
        settings = replace(self.defaults, **({"samples": samples} | chosen))
        used = settings.samples
        assert used is not None
        if used > samples:
            raise PatebenchError(f"{plural(used, 'sample')} requested, but the pool holds only {samples}")
        if settings.hint_epochs and not hints:
            if given.get("hint_epochs"):
                raise PatebenchError(
                    "hint learning needs the teachers' hints; name the ensemble's layer, hints: block2, or give"
                    " hint_epochs: 0"
                )
            settings = replace(settings, hint_epochs=0)
        if given.get("epsilon") is None:
            return settings
        return replace(settings, noise=noise_for(given["epsilon"], self.releases(settings, used), given["delta"]))

    def bound(self, settings: Settings, delta: float) -> Bound:
        """Return the total cost of all releases, for fresh noise; seeded noise is not a private release."""
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
