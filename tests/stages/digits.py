"""Digits, divided, with pool labels chosen by a test, and students trained on them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.stages.labels import OF_VOTES

from patebench.config.parameters import SplitParameters, StudentParameters
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import LABELS, POOL, SAMPLES
from patebench.features import contrast
from patebench.stages import data, extract_features, split, train_student

STREAM = "digits/seed-0_pool-300/teachers-10_iid_logistic_modern/lnmax/gamma-0.1/supervised_queries-200_logistic_modern"
LOGISTIC = StudentParameters(method="supervised", model="logistic")


@contextmanager
def briefly(steps: int = 40) -> Iterator[pytest.MonkeyPatch]:
    """Train contrastive encoders in `steps` steps within this context."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contrast, "STEPS", steps)
        patch.setattr(contrast, "PASSES", 1)
        yield patch


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
        self.private, self.public = folder / "private.npz", folder / "public.npz"
        self.pool, self.truth, self.test = folder / "pool.npz", folder / "truth.npz", folder / "test.npz"
        outputs = {"private": self.private, "public": self.public}
        data.run(name="digits", root=folder, download=False, option=option or {}, **outputs)
        split.run(
            public=self.public, parameters=parameters, seed=0, stream=stream,
            pool_out=self.pool, truth_out=self.truth, test_out=self.test,
        )  # fmt: skip


class Digits(Divided):
    """Folder with the data, and the labels and students that a test makes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SplitParameters(pool=300), STREAM)

    def release(self, labels: np.ndarray, pool: str | None = None) -> Path:
        pool = pool or read_arrays(self.pool, POOL).digest
        facts = {"votes": "", "pool": pool, "classes": 10, "mechanism": "lnmax", "parameters": {}, "mode": "seeded"}
        path = self.folder / "labels.npz"
        write_arrays(path, LABELS, {"labels": labels.astype(np.int32)}, {**facts, **OF_VOTES, "rounds": []})
        return path

    def turned(self) -> Path:
        """Return the path of the test set with each label increased by 1, so that correct predictions become wrong."""
        test, path = read_arrays(self.test, SAMPLES), self.folder / "turned.npz"
        write_arrays(path, SAMPLES, {**test.arrays, "y": (test["y"] + 1) % 10}, test.meta)
        return path

    def train(
        self, labels: Path, queries: int = 200, parameters: StudentParameters = LOGISTIC, test: Path | None = None
    ) -> dict[str, Any]:
        out = self.folder / "student.json"
        train_student.run(
            pool=self.pool, labels=labels, test=test or self.test, parameters=parameters, queries=queries, seed=0,
            stream=STREAM, out=out, predictions=self.folder / "predictions.npz",
        )  # fmt: skip
        return read_json(out, "train_student")


class WithEncoder(Digits):
    """Folder that also contains an encoder of the pool, trained only briefly."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.encoder, features = folder / "encoder.npz", folder / "features.npz"
        with briefly(60):
            extract_features.run(pool=self.pool, seed=0, stream="features", out=features, encoder=self.encoder)
