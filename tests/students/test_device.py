"""Test that all training uses the device of its process, which no other job of the machine uses.

No GPU is needed: tensors for a GPU stay on the CPU, and the named GPU is recorded.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.students.world import images, student_data, told
from torch.overrides import TorchFunctionMode

from patebench.baselines.soft_labels import fit
from patebench.features import contrast
from patebench.models import MODELS, make_learner, on_queries
from patebench.models.device import SWITCH, claim, device, release
from patebench.models.network import Network
from patebench.students import STRATEGIES, STUDENTS, acquisition
from patebench.students.interface import AcquisitionState, StudentConfig
from patebench.students.student_training import train
from patebench.students.supervised import OneStepTrainer
from patebench.teachers import teacher_training as teachers

GPUS = ["GPU-a", "GPU-b", "GPU-c"]
#: Learners of scikit-learn and linear heads compute on the CPU.
_ON_CPU = ("logistic", "random-forest", "linear-head")
NETWORKS = [name for name in MODELS if name not in _ON_CPU and not on_queries(name)]


class Moves(TorchFunctionMode):
    """Mode that stores every GPU named in a call of torch in `seen`, and lets the call use the CPU instead."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[torch.device] = set()

    def __torch_function__(
        self, call: Any, types: Any, arguments: Sequence[Any] = (), settings: Mapping[str, Any] | None = None
    ) -> Any:
        if call is torch._C._nn._parse_to or call is torch.device:
            return call(*arguments, **(settings or {}))
        moved = [self._on_cpu(each) for each in arguments]
        return call(*moved, **{name: self._on_cpu(each) for name, each in (settings or {}).items()})

    def _on_cpu(self, value: Any) -> Any:
        named = isinstance(value, str) and value.startswith("cuda")
        if named or (isinstance(value, torch.device) and value.type == "cuda"):
            self.seen.add(torch.device(value))
            return torch.device("cpu")
        return value


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Moves]:
    """Simulate three GPUs, of which another job has claimed the first; yield the mode that stores used GPUs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(GPUS))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=GPUS[index]))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv(SWITCH, "single")
    release()
    assert claim(GPUS, tmp_path) == 0, "stands for another job: the files of claims do not say whose they are"
    with Moves() as mode:
        yield mode
    release()


def only(moves: Moves) -> None:
    """Assert that the second GPU, the first free one, is the only GPU that was used."""
    assert device() == torch.device("cuda", 1)
    assert moves.seen == {torch.device("cuda", 1)}


@pytest.mark.slow
@pytest.mark.parametrize("method", STUDENTS.names())
def test_every_student_is_trained_on_the_device(method: str, moves: Moves) -> None:
    x, y = images(32, seed=0)
    data, config = told(method, x, y, 12), StudentConfig(method=method, epochs=1)
    student, _ = train(data, config, seed=0)
    assert student.log_probabilities(x).shape == (32, 4)
    if isinstance(STUDENTS.load(method)(data, config, 0), OneStepTrainer):
        assert not moves.seen, "methods of scikit-learn know no GPU"
    else:
        only(moves)


def test_features_are_learnt_on_the_device(moves: Moves, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contrast, "STEPS", 2)
    monkeypatch.setattr(contrast, "PASSES", 0)
    x, _ = images(20, seed=0)
    assert contrast.ContrastEncoder.learn(x).features(x).shape == (20, contrast.WIDTH)
    only(moves)


@pytest.mark.parametrize("strategy", ["siamese", "binary-experts"])
def test_strategies_that_train_use_the_device(strategy: str, moves: Moves, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquisition, "STEPS", 2)
    x, y = images(24, seed=0)
    config = StudentConfig(method="supervised", epochs=1)
    data = student_data(x, y, 8, classes=5)
    state = AcquisitionState(data=data, queried=np.arange(8), predictions=None, config=config)
    assert len(STRATEGIES.load(strategy)(state, 3, 0)) == 3
    only(moves)


@pytest.mark.parametrize("model", NETWORKS)
def test_teachers_are_trained_on_the_device(model: str, moves: Moves) -> None:
    x, y = images(12, seed=0)
    kind: Callable[[], Any] = partial(make_learner, model, "modern", classes=4, epochs=1)
    for _, trained in teachers.train(kind, [(x, y)] * 2, [0, 1], lambda done: None):
        assert trained.device_facts["device"] == "cuda"
    only(moves)


def test_distillation_uses_the_device(moves: Moves) -> None:
    learner = make_learner("mlp", "plain", classes=2, epochs=1)
    assert isinstance(learner, Network)
    fit(learner, np.ones((8, 4), np.float32), np.full((8, 2), 0.5), 2.0, seed=0)
    only(moves)


def test_nothing_else_names_a_device() -> None:
    """Only `models/device.py` chooses one: no other file of the package asks torch what devices there are."""
    package = Path(__file__).parents[2] / "workflow" / "patebench"
    naming = {path.name for path in package.rglob("*.py") if "torch.cuda" in path.read_text()}
    assert naming == {"device.py"}
