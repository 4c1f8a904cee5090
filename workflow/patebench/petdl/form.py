"""What a form of PET-DL is: a way for knowledge to reach a student, its cost, and the loop that forms share."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from patebench.core.bound import Bound, Kind
from patebench.core.errors import PatebenchError
from patebench.core.seeds import derive
from patebench.core.text import plural
from patebench.models.network import optimisation, steps
from patebench.models.recipes import Recipe
from patebench.petdl.noisy_sums import Summand, epsilon, noise_for
from patebench.petdl.student import Knowledge, PetdlStudent


@dataclass(frozen=True)
class Settings:
    """How a student learns. `noise` is in clips: the standard deviation where the clip is 1.

    `clip` bounds what one teacher adds: PET-DL's B of a loss, the norm S of a gradient, of softened outputs;
    `hint_clip` the norm of hints. `samples` public samples are used, the first of the pool; None: all.
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

    def chosen(self, given: Mapping[str, Any]) -> Self:
        """These, with what is given in place of the defaults; None is not given."""
        names = {field.name for field in fields(self)}
        return replace(self, **{name: value for name, value in given.items() if name in names and value is not None})

    def steps(self, samples: int) -> int:
        """How many batches hint learning and distillation go through together, over so many samples."""
        return (self.hint_epochs + self.distillation_epochs) * math.ceil(samples / self.batch)


#: Called after each epoch of distillation with its number from 1.
Done = Callable[[int], None]


@dataclass(frozen=True)
class Streams:
    """Generators by name: what shuffles is public, and noise protects. `noises` tells draws of noise alone apart."""

    seed: int
    noises: int = 0

    def generator(self, name: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive(self.seed, name))

    def noise(self) -> torch.Generator:
        return torch.Generator().manual_seed(derive(self.seed, "noise", self.noises))


class Form(ABC):
    """One form; `defaults` are its settings where nothing is chosen."""

    name: ClassVar[str]
    defaults: ClassVar[Settings]
    kind: ClassVar[Kind]
    source: ClassVar[str]

    @abstractmethod
    def releases(self, settings: Settings, samples: int) -> dict[Summand, int]:
        """How many noisy releases of which sort are made, over so many public samples."""

    def clip_of(self, sort: Summand, settings: Settings) -> float:
        """What the vectors of a sort are clipped to."""
        return settings.clip

    def release(self, vectors: Tensor, sort: Summand, settings: Settings, noise: torch.Generator) -> Tensor | None:
        """The noisy sum of vectors (teachers, features) as the form makes it, to be audited; None: there is none."""
        return None

    @abstractmethod
    def learn(
        self, student: PetdlStudent, x: Tensor, knowledge: Knowledge, settings: Settings, streams: Streams, done: Done
    ) -> None:
        """Train the student on standardised public samples `x`, of which the teachers say `knowledge`."""

    def settled(self, given: Mapping[str, Any], samples: int, hints: bool) -> Settings:
        """All settings, for so many samples in the pool; a target `epsilon` at `delta` becomes the noise for it.

        PatebenchError for more samples than there are, hint learning without hints, or a target that no noise keeps.
        """
        chosen = self.defaults.chosen(given)
        used = samples if chosen.samples is None else chosen.samples
        if used > samples:
            raise PatebenchError(f"{plural(used, 'sample')} asked for, and the pool holds {samples}")
        if chosen.hint_epochs and not hints:
            if given.get("hint_epochs"):
                raise PatebenchError(
                    "hint learning needs the teachers' hints; name the ensemble's layer, hints: block2, or give"
                    " hint_epochs: 0"
                )
            chosen = replace(chosen, hint_epochs=0)
        chosen = replace(chosen, samples=used)
        if given.get("epsilon") is None:
            return chosen
        return replace(chosen, noise=noise_for(given["epsilon"], self.releases(chosen, used), given["delta"]))

    def bound(self, settings: Settings, delta: float) -> Bound:
        """What all releases cost together, by noise that is drawn afresh; seeded noise is no release."""
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


#: Sets the gradients of the weights for one batch: its samples, and their positions.
Backward = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True)
class Stage:
    """Hint learning or distillation: so many epochs, in which `backward` gives the gradients of `weights`."""

    name: str
    epochs: int
    weights: list[nn.Parameter]
    backward: Backward


def run(
    student: PetdlStudent,
    x: Tensor,
    stage: Stage,
    settings: Settings,
    streams: Streams,
    done: Done | None = None,
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None,
) -> None:
    """Train one stage on standardised samples `x`, by AdamW under one cycle of learning rates."""
    if not stage.epochs:
        return
    recipe = Recipe(
        optimiser="adamw",
        learning_rate=settings.learning_rate,
        batch=settings.batch,
        epochs=stage.epochs,
        schedule="one-cycle",
        weight_decay=1e-2,
    )
    optimiser, schedule = optimisation(stage.weights, recipe, steps(len(x), recipe))
    order = streams.generator(f"{stage.name}/order")
    for epoch in range(stage.epochs):
        student.net.train()
        for rows in torch.randperm(len(x), generator=order).split(settings.batch):  # type: ignore[no-untyped-call]
            here = rows.to(x.device)
            samples = x[here] if augment is None else augment(x[here], order)
            optimiser.zero_grad(set_to_none=True)
            stage.backward(samples, here)
            optimiser.step()
            schedule.step()
        if done:
            done(epoch + 1)
