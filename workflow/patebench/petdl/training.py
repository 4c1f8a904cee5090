"""The loop that the forms share: batches of public samples, and the two stages of Algorithm 1."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from patebench.models.network import optimisation, steps
from patebench.models.recipes import Recipe
from patebench.petdl.form import Done, Settings, Streams
from patebench.petdl.student import Student

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
    student: Student,
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
