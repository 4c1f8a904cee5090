"""The loop of DP-SGD: noisy sums of gradients drive Adam, and an average of the weights is what predicts.

All but `NoisySteps` is post-processing. Adam's steps do not change when all gradients are scaled alike, so a sum serves
as well as a mean, and nobody has to know how many private samples there are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from patebench.baselines.dpsgd.clipping import PrivateModel
from patebench.baselines.dpsgd.steps import NoisySteps
from patebench.core.progress import Report
from patebench.models.ema import ema_update_tensors
from patebench.models.optimisers import Adam

#: How many points a learning curve has.
_POINTS = 10


@dataclass(frozen=True)
class Trained:
    """The averaged weights, and the accuracy on the way."""

    weights: Tensor
    curve: list[dict[str, float]]


def train(
    model: PrivateModel,
    noisy: NoisySteps,
    *,
    steps: int,
    learning_rate: float,
    ema: float,
    evaluate: Callable[[Tensor], float],
    report: Report | None = None,
) -> Trained:
    """Take so many noisy steps; the learning rate falls to 0 along a line.

    `evaluate` gives the accuracy of weights on public samples, ten times on the way.
    """
    weights = model.start()
    average = weights.clone()
    optimiser = Adam([weights], learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=steps)
    curve = []
    for step in range(1, steps + 1):
        weights.grad = noisy.step(partial(model.clipped_sum, weights))
        optimiser.step()
        schedule.step()
        ema_update_tensors([average], [weights], step, ema)
        if step * _POINTS // steps > (step - 1) * _POINTS // steps:
            curve.append({"step": step, "accuracy": evaluate(average)})
        if report:
            report(step, steps)
    return Trained(average, curve)
