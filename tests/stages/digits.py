"""Digits, divided, with teachers, with pool labels chosen by a test, and with students trained on them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.stages.labels import OF_VOTES

from patebench.config.parameters import (
    KeptOutputs,
    PartitionParameters,
    SplitParameters,
    StudentParameters,
    TrainingParameters,
)
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import LABELS, POOL, SAMPLES
from patebench.features import contrast
from patebench.stages import data, extract_features, join_votes, partition, split, train_student, train_teachers

STREAM = "digits/seed-0_pool-300/teachers-10_iid_logistic_modern/lnmax/gamma-0.1/supervised_queries-200_logistic_modern"
ENSEMBLE_STREAM = "digits/seed-0_pool-100_test-100/teachers-6_iid_logistic_modern"
LOGISTIC = StudentParameters(method="supervised", model="logistic")


@contextmanager
def briefly(steps: int = 40) -> Iterator[pytest.MonkeyPatch]:
    """Train contrastive encoders in `steps` steps within this context."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contrast, "STEPS", steps)
        patch.setattr(contrast, "PASSES", 1)
        yield patch


def nearest(of: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the index (rows,) of the point nearest to each row of `of`."""
    return np.square(of[:, None] - points).sum(axis=2).argmin(axis=1)


def change_record(path: Path, record: int, white: int = 255) -> None:
    """Replace a record in the file `path`: `white` minus the image, and its label plus 1 modulo 10."""
    private = read_arrays(path, SAMPLES)
    x, y = private["x"].copy(), private["y"].copy()
    x[record], y[record] = white - x[record], (y[record] + 1) % 10
    write_arrays(path, SAMPLES, {**private.arrays, "x": x, "y": y}, private.meta)


class Divided:
    """Folder with the digits, divided into private data, pool and test set."""

    def __init__(
        self, folder: Path, parameters: SplitParameters, stream: str, option: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.named: dict[str, Any] = {"seed": 0, "stream": stream}
        self.private, self.public, self.pool, self.truth, self.test = map(
            self.file, ("private.npz", "public.npz", "pool.npz", "truth.npz", "test.npz")
        )
        inputs = self.files("private", "public")
        data.run(name="digits", root=folder, download=False, option=option or {}, **inputs)
        outputs = {f"{name}_out": path for name, path in self.files("pool", "truth", "test").items()}
        split.run(public=self.public, parameters=parameters, **self.named, **outputs)

    def file(self, name: str) -> Path:
        return self.folder / name

    def files(self, *names: str) -> dict[str, Path]:
        return {name: self.file(f"{name}.npz") for name in names}

    def join(self, *chunks: Path) -> tuple[Path, Path]:
        """Join chunks of teachers; return the files of the votes and of the summary."""
        out, summary = self.file("votes.npz"), self.file("ensemble.json")
        join_votes.run(**self.files("partition", "pool", "truth", "test"), chunk=chunks, out=out, summary=summary)
        return out, summary


class Ensemble(Divided):
    """Folder with the data, a partition for six teachers, and the chunks that a test trains."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SplitParameters(pool=100, test=100), ENSEMBLE_STREAM)
        self.partition = self.file("partition.npz")
        inputs = self.files("private", "public")
        partition.run(**inputs, teachers=6, parameters=PartitionParameters(), **self.named, out=self.partition)

    def train(self, first: int, last: int, model: str = "logistic", epochs: int | None = None, **kept: object) -> Path:
        spelt = "-".join(map(str, (first, last, model, epochs, *kept.values())))
        out = self.file(f"{spelt.replace('/', '-')}.npz")
        train_teachers.run(
            **self.files("private", "partition", "pool", "test"), teachers=(first, last), **self.named, out=out,
            training=TrainingParameters(model=model, epochs=epochs), kept=KeptOutputs.checked(kept),
        )  # fmt: skip
        return out


class Digits(Divided):
    """Folder with the data, and the labels and students that a test makes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SplitParameters(pool=300), STREAM)

    def release(self, labels: np.ndarray) -> Path:
        pool, path = read_arrays(self.pool, POOL).digest, self.file("labels.npz")
        facts = {"votes": "", "pool": pool, "classes": 10, "mechanism": "lnmax", "parameters": {}, "mode": "seeded"}
        write_arrays(path, LABELS, {"labels": labels.astype(np.int32)}, {**facts, **OF_VOTES, "rounds": []})
        return path

    def train(self, labels: Path, queries: int = 200, parameters: StudentParameters = LOGISTIC) -> dict[str, Any]:
        out, predictions = self.file("student.json"), self.file("predictions.npz")
        train_student.run(
            **self.files("pool", "test"), labels=labels, parameters=parameters, queries=queries, **self.named, out=out,
            predictions=predictions,
        )  # fmt: skip
        return read_json(out, "train_student")


class WithEncoder(Digits):
    """Folder that also contains an encoder of the pool, trained only briefly."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.encoder, features = self.file("encoder.npz"), self.file("features.npz")
        with briefly(60):
            extract_features.run(pool=self.pool, seed=0, stream="features", out=features, encoder=self.encoder)
