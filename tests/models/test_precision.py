"""Autocast: where it is worth it, and how it is turned off."""

import pytest
import torch

from patebench.core.errors import PatebenchError
from patebench.models.architectures import mlp as perceptron
from patebench.models.architectures import small_cnn
from patebench.models.device import SWITCH, compute_dtype, compute_dtype_for
from patebench.models.recipes import MODERN, PAPER

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that multiplies bfloat16."""
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    monkeypatch.delenv(SWITCH, raising=False)


def test_small_networks_and_recipes_that_say_so_stay_in_single_precision() -> None:
    assert compute_dtype_for(small_cnn((1, 28, 28), 10), (1, 28, 28), MODERN, CPU) is torch.bfloat16
    assert compute_dtype_for(small_cnn((1, 28, 28), 10), (1, 28, 28), PAPER, CPU) is torch.float32
    assert compute_dtype_for(small_cnn((1, 8, 8), 10), (1, 8, 8), MODERN, CPU) is torch.float32
    assert compute_dtype_for(perceptron((30,), 2), (30,), MODERN, CPU) is torch.float32


def test_processors_without_it_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    assert compute_dtype(CPU) is torch.float32


def test_a_variable_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compute_dtype(CPU) is torch.bfloat16
    monkeypatch.setenv(SWITCH, "single")
    assert compute_dtype(CPU) is torch.float32
    monkeypatch.setenv(SWITCH, "double")
    with pytest.raises(PatebenchError, match=f"{SWITCH} is 'double'; set it to single"):
        compute_dtype(CPU)
