"""Measure how many images of the pool students learn per second, beside a plain supervised loop of the same network.

Run with `make bench`. The plain loop passes each image once, forward and backward, in single precision and without
augmentation; a semi-supervised student sees it up to five times. Pytest does not collect this file.
"""

import os
import platform
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.nn.functional as F
from comparison import markdown_table, parse_out
from torch import nn

from patebench.core.files import write_text
from patebench.models import make_learner
from patebench.students import STUDENTS, reads_table
from patebench.students.gan import networks
from patebench.students.interface import StudentConfig, StudentData
from patebench.students.semi_supervised import LARGE

#: Shape of a sample and size of the pool; it is large for MNIST, where students then use larger networks.
DATA = {"MNIST": ((1, 28, 28), LARGE), "digits": ((1, 8, 8), 400), "CIFAR-10": ((3, 32, 32), 1000)}
#: Number of epochs, more than are measured; on a large pool, consistency trains a share of them to clean the labels.
EPOCHS, EPOCHS_SCREENED = 1_000, 50
CLASSES, LABELS, BATCH = 10, 100, 200


def rate(work: Callable[[], object], images: int) -> float:
    """Return the images per second of processor time, after one call to warm up."""
    work()
    started, calls = time.process_time(), 0
    while calls < 1 or time.process_time() - started < 2:
        work()
        calls += 1
    return images * calls / (time.process_time() - started)


def plain(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Return the images per second of a plain training loop."""
    optimiser = torch.optim.AdamW(net.parameters(), 1e-3)

    def epoch() -> None:
        for batch in torch.randperm(len(x)).split(BATCH):
            optimiser.zero_grad()
            logits = net(x[batch])
            F.cross_entropy(logits[0] if isinstance(logits, tuple) else logits, y[batch]).backward()
            optimiser.step()

    return rate(epoch, len(x))


def measure(method: str, shape: tuple[int, ...], pool: int) -> tuple[str, float, float] | None:
    """Return the model of a student, its images per second and those of the plain loop.

    A supervised epoch has labelled images only. The result is None for a method that is fitted in one step.
    """
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (pool, *shape)).astype(np.uint8)
    labels = np.where(np.arange(pool) < LABELS, rng.integers(0, CLASSES, pool), -1)
    torch.manual_seed(0)
    data = StudentData(pool=x, labels=labels, classes=CLASSES)
    epochs = EPOCHS_SCREENED if method == "consistency" and pool >= LARGE else EPOCHS
    training = STUDENTS.load(method)(data, StudentConfig(method=method, epochs=epochs), 0)
    if training.epochs == 1:
        return None
    seen = pool if method in ("gan", "vat", "consistency") else LABELS
    ours = rate(training.epoch, seen)
    if training.model.startswith("salimans"):
        net: nn.Module = networks(shape, CLASSES)[1]
    else:
        net = make_learner(training.model, "plain", classes=CLASSES).build(shape, CLASSES)  # type: ignore[attr-defined]
    return training.model, ours, plain(net, torch.from_numpy(x).float() / 255, torch.randint(CLASSES, (pool,)))


def main() -> None:
    out, rows = parse_out(__doc__, "benchmarks-students.md"), []
    for data, (shape, pool) in DATA.items():
        for method in STUDENTS:
            if reads_table(method) or (found := measure(method, shape, pool)) is None:
                continue
            model, ours, other = found
            rows.append([data, method, model, f"{ours:,.0f}", f"{other:,.0f}", f"{other / ours:.1f}"])
            print(*rows[-1], sep=" | ", flush=True)
    about = (
        f"One thread on {platform.machine()}, torch {torch.__version__}, in seconds of processor time. An image counts "
        "once for each pass over it,\nhowever often a student looks at it: in views, by the average of its weights, "
        "beside generated ones.\nSupervised students pass over their labelled samples only; VAT needs three passes "
        "forward and backward, one of them in single precision."
    )
    heading = ["data", "student", "model", "images/s", "plain loop, images/s", "times as long"]
    write_text(out, f"# Speed of the students\n\n{about}\n\n{markdown_table(heading, rows, 'lllrrr')}\n")


if __name__ == "__main__":
    main()
