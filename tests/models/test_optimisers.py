"""Optimisers without torch's compiler: the same weights, and no import of it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from patebench.models import optimisers


def trained(algorithm: type[torch.optim.Optimizer]) -> torch.Tensor:
    """Return weights after six steps; a second optimiser continues from the first one's state after three."""
    weights = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
    target = torch.arange(6.0).reshape(2, 3)
    optimiser = algorithm([weights], 0.1)
    for step in range(6):
        if step == 3:
            state = optimiser.state_dict()
            optimiser = algorithm([weights], 0.1)
            optimiser.load_state_dict(state)
        optimiser.zero_grad()
        ((weights - target) ** 2).sum().backward()
        optimiser.step()
    return weights.detach()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_steps_are_those_of_torch(name: str) -> None:
    found, own = trained(getattr(optimisers, name)), trained(getattr(torch.optim, name))
    assert torch.equal(found, own)
    assert not torch.equal(own, torch.linspace(-1, 1, 6).reshape(2, 3)), "it learns nothing"


@pytest.mark.slow
def test_a_job_that_trains_never_imports_the_compiler(tiny: Path) -> None:
    job = f"train-baseline --private {tiny}/private.npz --test {tiny}/test.npz --out {tiny}/baseline.json"
    job += " --model small-cnn --epochs 1 --seed 0 --stream tiny"
    code = "import sys; from patebench.cli import cli; cli(sys.argv[1:], standalone_mode=False)"
    code += "; print([name for name in ('torch.nn', 'torch._dynamo') if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code, *job.split()], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == "['torch.nn']"
