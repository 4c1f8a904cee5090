"""Measure images per second of DP-SGD beside a plain loop with Opacus, in processor time of one core.

Run with `make bench`. The plain loop is that of Opacus' tutorials: `GradSampleModule`, and `DPOptimizer`, which clips
and adds the noise. The gradients of several views of an image are averaged before. Pytest does not collect this file.
"""

import argparse
import os
import platform
import warnings
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time

import numpy as np
import torch
import torch.nn.functional as F
from comparison import REFERENCE, Row, least, markdown, show
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import nn

from patebench.baselines.clipped_models import LinearModel, NetworkModel
from patebench.baselines.noisy_steps import NoisySteps, PoissonSampler
from patebench.core.files import write_text
from patebench.models.architectures import small_cnn, tanh_cnn
from patebench.models.scaling import Standardise

PAGE = "benchmarks-dpsgd.md"
SHAPE, CLASSES, FEATURES = (1, 28, 28), 10, 32
NOISE, CLIP, RATE = 1.0, 1.0, 0.5
#: Batches of Opacus' loop; larger ones need more memory and are no faster.
BATCH = 256


def ours(model: NetworkModel | LinearModel, samples: int) -> Callable[[], None]:
    """Return a function that takes one step on, in expectation, half of the samples."""
    rng = torch.Generator().manual_seed(0)
    noisy = NoisySteps(PoissonSampler(RATE, rng), samples, noise=NOISE, clip=CLIP, rng=rng)
    weights = model.start()

    def step() -> None:
        noisy.step(lambda chosen, clip: model.clipped_sum(weights, chosen, clip))

    return step


def theirs(net: nn.Module, x: torch.Tensor, y: torch.Tensor, views: int) -> Callable[[], None]:
    """Return the same function with Opacus: clipped gradients are accumulated over batches."""
    model = GradSampleModule(net)
    sgd = torch.optim.SGD(model.parameters(), 0.0)
    optimiser = DPOptimizer(sgd, noise_multiplier=NOISE, max_grad_norm=CLIP, expected_batch_size=int(RATE * len(x)))

    def step() -> None:
        chosen = torch.nonzero(torch.rand(len(x)) < RATE).flatten()
        parts = chosen.split(BATCH // views)
        for number, part in enumerate(parts):
            optimiser.zero_grad()
            batch = x[part].repeat_interleave(views, 0).requires_grad_(True)
            F.cross_entropy(model(batch), y[part].repeat_interleave(views)).backward()
            if views > 1:
                for each in model.parameters():
                    each.grad_sample = each.grad_sample.unflatten(0, (len(part), views)).mean(1)
            optimiser.signal_skip_step(number < len(parts) - 1)
            optimiser.step()

    return step


def compare(what: str, mine: Callable[[], None], other: Callable[[], None], images: int) -> Row:
    """Return a row with the images per second of processor time of both steps, after one call each to warm up."""
    rates = []
    for step in (mine, other):
        step()
        rates.append(images / least(step, clock=time.process_time))
    return Row(what, f"{rates[0]:,.0f}", f"{rates[1]:,.0f}", f"{rates[0] / rates[1]:.2f}", "≥ 1", rates[0] >= rates[1])


def networks(samples: int) -> list[Row]:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (samples, *SHAPE), dtype=np.uint8), rng.integers(0, CLASSES, samples)
    standardise = Standardise(torch.from_numpy(x))
    rows = []
    for name, build in (("tanh-cnn", tanh_cnn), ("small-cnn", small_cnn)):
        for views in (1, 4):
            model = NetworkModel(
                build(SHAPE, CLASSES), standardise, x, y, views=views, rng=torch.Generator().manual_seed(0)
            )
            other = theirs(build(SHAPE, CLASSES), standardise(torch.from_numpy(x)), torch.from_numpy(y), views)
            rows.append(compare(f"{name}, views: {views}", ours(model, samples), other, int(RATE * samples * views)))
    return rows


def linear(samples: int) -> Row:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(samples, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, samples)
    model = LinearModel(lambda x: x, x, y, CLASSES)
    other = theirs(nn.Linear(FEATURES, CLASSES), torch.from_numpy(x), torch.from_numpy(y), 1)
    return compare(f"linear, {FEATURES} features", ours(model, samples), other, int(RATE * samples))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE}")
    write = parser.parse_args().write
    warnings.filterwarnings("ignore")  # of Opacus, about hooks and seeds
    torch.manual_seed(0)
    rows = [*networks(1024), linear(20_000)]
    show(rows, "Opacus")
    if write:
        about = (
            f"Images, each view being one, per second of processor time on one core ({platform.machine()}, torch "
            f"{torch.__version__}), beside a plain loop with Opacus. Random views are drawn here, and not there."
        )
        write_text(REFERENCE / PAGE, markdown("DP-SGD: images per second", about, rows, "Opacus"))


if __name__ == "__main__":
    main()
