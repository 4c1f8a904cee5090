"""Measure the gradients of all teachers in one batched call, as in PET-DL's noisy gradient, beside a loop.

Run with `make bench`, or by itself. Samples and weights are the same for all teachers, so a loop repeats the same
forward pass for each teacher. Pytest does not collect this file.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from comparison import least
from torch import Tensor

from patebench.models.device import device
from patebench.petdl.noisy_gradient import per_teacher
from patebench.petdl.student import PetdlStudent

#: The student of PET-DL on MNIST, Table 3.
WIDTH, BATCH, REPEATS = 12, 128, 3


def wait_for_device() -> None:
    """Wait until the GPU has finished; without a GPU, return at once."""
    if device().type == "cuda":
        torch.cuda.synchronize()


def seconds(work: Callable[[], object]) -> float:
    """Return the least time of `REPEATS` calls, after one call to warm up."""

    def call() -> None:
        work()
        wait_for_device()

    call()
    return least(call, REPEATS)


def measure(teachers: int) -> tuple[float, float, float]:
    """Return the seconds of the batched call and of a loop, and the relative difference of their gradients."""
    x = torch.randint(0, 255, (BATCH, 1, 28, 28)).byte()
    student = PetdlStudent(x, 10, WIDTH, guided="block2", features=256, seed=0)
    samples, weights = student.samples(x), student.weights()
    softened = torch.randn(teachers, BATCH, 10).softmax(2).to(samples.device)

    def batched() -> list[Tensor]:
        logits = student.logits(samples)
        return per_teacher(logits, (logits.detach().softmax(1) - softened) / BATCH, weights)

    def looped() -> list[Tensor]:
        found = []
        for each in softened:
            loss = F.cross_entropy(student.logits(samples), each)
            found.append(torch.autograd.grad(loss, weights))
        return [torch.stack(each) for each in zip(*found, strict=True)]

    apart = max(float((a - b).norm() / b.norm()) for a, b in zip(batched(), looped(), strict=True) if b.norm() > 1e-4)
    return seconds(batched), seconds(looped), apart


if __name__ == "__main__":
    print(f"{torch.get_num_threads()} threads, batches of {BATCH} images of 28×28, a student of width {WIDTH}")
    for teachers in (4, 10, 50):
        ours, loop, apart = measure(teachers)
        times = f"{ours:.3f} s in one call, {loop:.3f} s in a loop, {loop / ours:.1f} times as long"
        print(f"{teachers} teachers: {times}; gradients differ by {apart:.0e}")
