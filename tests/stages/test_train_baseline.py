"""Test the stage `train_baseline` on all private data and on true labels of the pool."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.stages.digits import Digits

from patebench.artefacts.reading import read_samples
from patebench.config.parameters import SplitParameters, TrainingParameters
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import POOL, SAMPLES
from patebench.stages import train_baseline

LOGISTIC = TrainingParameters(model="logistic")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    return Digits(tmp_path_factory.mktemp("baselines"))


def learn(digits: Digits, private: Path | None = None, true_labels: int | None = None, pool: bool = False) -> Any:
    files = {"pool": digits.pool if pool else None, "truth": digits.truth if pool else None, "test": digits.test}
    train_baseline.run(
        private=private, true_labels=true_labels, **files, training=LOGISTIC, seed=0, stream="digits/baseline",
        out=digits.folder / "baseline.json",
    )  # fmt: skip
    return read_json(digits.folder / "baseline.json", "train_baseline")


def test_the_baseline_learns_from_all_private_data_and_from_no_test_sample(digits: Digits) -> None:
    """Add the test set to the private data with other labels, which would cause wrong predictions."""
    told = learn(digits, digits.private)
    assert told["accuracy"] > 0.93
    assert (told["dataset"], told["split"]) == ("digits", read_arrays(digits.pool, POOL).meta["split"])
    assert told["split"] == SplitParameters(pool=300).model_dump()
    assert (told["seed"], told["training"]) == (0, LOGISTIC.model_dump())
    private, test = read_samples(digits.private, "private"), read_samples(digits.test, "test")
    x, y = np.concatenate([private["x"], test["x"]]), np.concatenate([private["y"], (test["y"] + 1) % 10])
    mixed = digits.folder / "mixed.npz"
    write_arrays(mixed, SAMPLES, {"x": x, "y": y, "row": np.arange(len(x))}, private.meta)
    assert learn(digits, mixed)["accuracy"] == told["accuracy"]


def test_true_labels_show_what_students_could_learn(digits: Digits) -> None:
    """Train on exactly the given number of first pool samples."""
    told = learn(digits, true_labels=200, pool=True)
    assert told["true_labels"] == 200
    assert 0.8 < told["accuracy"] < 0.97
    assert "private" not in told
    for private, labels, words in (
        (digits.private, 200, "are given by --private, --pool, --truth, --true-labels; give either --private alone"),
        (None, None, "are given by --pool, --truth; give either --private alone"),
        (None, 301, r"--true-labels is 301, but .*pool\.npz has 300 samples"),
    ):
        with pytest.raises(PatebenchError, match=words):
            learn(digits, private, labels, pool=True)
