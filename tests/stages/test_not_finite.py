"""Test that NaN in a student or baseline ends in one line with the file, the sample and the fix."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.stages.labels import OF_VOTES, write_votes

import patebench
from patebench.config.parameters import DistilParameters, SplitParameters, StudentParameters, TrainingParameters
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, write_arrays
from patebench.core.formats import LABELS, POOL, PREDICTIONS, TRUTH
from patebench.models.scaling import Standardise
from patebench.stages import distil, extract_features, split, train_baseline, train_student

LARGEST = np.finfo(np.float32).max


class World:
    """Table of two classes with labels and votes; one value each of private and public data is the largest float."""

    def __init__(self, folder: Path, write_samples: Callable[..., Path], images: bool = False) -> None:
        rng = np.random.default_rng(0)
        for role in ("private", "public"):
            x = rng.normal(size=(120, 4)).astype(np.float32)
            x[7, 2], x[8, 1] = LARGEST, -1e30
            x = rng.integers(0, 256, (120, 1, 8, 8)).astype(np.uint8) if images else x
            write_samples(role, x, np.arange(120) % 2, classes=2)
        names = ("private", "pool", "truth", "test", "labels", "votes")
        self.private, self.pool, self.truth, self.test, self.labels, self.votes = (folder / f"{n}.npz" for n in names)
        self.folder, self.out = folder, folder / "out.json"
        split.run(
            public=folder / "public.npz", parameters=SplitParameters(pool=110), seed=0, stream="mine",
            pool_out=self.pool, truth_out=self.truth, test_out=self.test,
        )  # fmt: skip
        digest, y = read_arrays(self.pool, POOL).digest, read_arrays(self.truth, TRUTH)["y"].astype(np.int32)
        facts = {"pool": digest, "classes": 2, "mechanism": "lnmax", "parameters": {}, "mode": "seeded", "rounds": []}
        write_arrays(self.labels, LABELS, {"labels": y}, {"votes": "", **OF_VOTES, **facts})
        write_votes(self.votes, np.stack([y] * 3), 2, np.ones((1, 110, 2)), pool=digest, temperatures=[1])

    def student(self, **given: Any) -> None:
        train_student.run(
            pool=self.pool, labels=self.labels, test=self.test, parameters=StudentParameters(**given), queries=110,
            seed=0, stream="mine", out=self.out, predictions=self.folder / "predictions.npz",
        )  # fmt: skip

    def baseline(self, **files: Any) -> None:
        given = {"private": None, "pool": None, "truth": None, "true_labels": None, **files}
        training = TrainingParameters(model="mlp", recipe="plain", epochs=2)
        train_baseline.run(**given, test=self.test, training=training, seed=0, stream="mine", out=self.out)

    def features(self) -> None:
        extract_features.run(pool=self.pool, seed=0, stream="mine", out=self.out, encoder=self.folder / "encoder.npz")

    def distilled(self) -> None:
        parameters = DistilParameters(model="mlp", recipe="plain", epochs=2, samples=[50])
        distil.run(
            votes=self.votes, pool=self.pool, test=self.test, parameters=parameters, seed=0, stream="mine", out=self.out
        )


@pytest.fixture
def world(tmp_path: Path, write_samples: Callable[..., Path]) -> World:
    return World(tmp_path, write_samples)


def without_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the clipping of standardised samples, so that some become infinite."""

    def forward(self: Standardise, x: torch.Tensor) -> torch.Tensor:
        scaled = x.float() * (1e30 if x.ndim == 2 else 1e38)
        return scaled - scaled

    monkeypatch.setattr(Standardise, "forward", forward)


OF_THE_POOL: dict[str, Callable[[World], None]] = {
    "supervised": lambda world: world.student(method="supervised", epochs=2),
    "gan": lambda world: world.student(method="gan", epochs=2),
    "true labels": lambda world: world.baseline(pool=world.pool, truth=world.truth, true_labels=50),
    "features": World.features,
    "distillation": World.distilled,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_THE_POOL)
def test_the_sample_of_the_pool_is_named(name: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    without_bounds(monkeypatch)
    monkeypatch.setattr("patebench.features.contrast.STEPS", 3)
    monkeypatch.setattr("patebench.features.contrast.PASSES", 0)
    where = int(np.flatnonzero(read_arrays(world.pool, POOL)["row"] == 7)[0])
    with pytest.raises(PatebenchError) as caught:
        OF_THE_POOL[name](world)
    line = str(caught.value)
    assert line.startswith(f"{world.pool}: the ")
    assert f"the largest value is 3.4e+38, in feature 2 of sample {where} (row 7 of the data)" in line
    assert "replace such values, or choose another model or recipe" in line
    assert "\n" not in line
    assert "delete" not in line
    assert not world.out.exists()


def test_a_private_record_and_a_test_sample_are_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        without_bounds(patch)
        where = r"the largest value is 3.4e\+38, in feature 2 of sample 7 \(row 7 of the data\)"
        words = rf"{world.private}: the predictions of the baseline mlp are NaN; {where}"
        with pytest.raises(PatebenchError, match=words):
            world.baseline(private=world.private)
    assert not world.out.exists()
    monkeypatch.setattr("patebench.stages.train_student._CURVE_SAMPLES", 5)
    monkeypatch.setattr(Standardise, "forward", lambda self, x: x.clamp(-10, 10) if len(x) != 5 else x * torch.nan)
    words = rf"{world.test}: the predictions of the student are NaN; .* of sample \d \(row"
    with pytest.raises(PatebenchError, match=words):
        world.student(method="supervised", model="mlp", epochs=2)


def test_images_are_not_to_blame_and_python_names_the_sample_too(
    tmp_path: Path, write_samples: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, write_samples, images=True)
    without_bounds(monkeypatch)
    with pytest.raises(PatebenchError, match="8-bit images cannot be the cause: choose another model"):
        world.student(method="supervised", epochs=1)
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    x[3, 1] = -2e38
    with pytest.raises(PatebenchError, match=r"(NaN|nan).*; the largest value is -2e\+38, in feature 1 of sample 3"):
        patebench.train_student(x, np.arange(40) % 2, method="supervised", epochs=2)


def test_large_values_alone_stop_no_student_and_no_baseline(world: World) -> None:
    world.student(method="supervised", epochs=1)
    assert np.isfinite(read_arrays(world.folder / "predictions.npz", PREDICTIONS)["probabilities"]).all()
    for files in ({"private": world.private}, {"pool": world.pool, "truth": world.truth, "true_labels": 50}):
        world.baseline(**files)
