"""Test the stage `train_baseline` on all private data and on true labels of the pool."""

from functools import partial

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


def test_the_baseline_sees_all_private_data(digits: Digits) -> None:
    out = digits.folder / "baseline.json"
    stream = "digits/seed-0_pool-300/baseline/logistic_modern"
    train_baseline.run(
        private=digits.private, pool=None, truth=None, true_labels=None, test=digits.test, training=LOGISTIC, seed=0,
        stream=stream, out=out,
    )  # fmt: skip
    told = read_json(out, "train_baseline")
    assert told["accuracy"] > 0.93
    assert (told["dataset"], told["split"]) == ("digits", read_arrays(digits.pool, POOL).meta["split"])
    assert told["split"] == SplitParameters(pool=300).model_dump()
    assert (told["seed"], told["training"]) == (0, LOGISTIC.model_dump())
    assert TrainingParameters(**told["training"]).slug == "logistic_modern"


def test_the_baseline_learns_from_no_test_sample(digits: Digits) -> None:
    """Add the test set to the private data with other labels, which would cause wrong predictions."""
    private, test = read_samples(digits.private, "private"), read_samples(digits.test, "test")
    x, y = np.concatenate([private["x"], test["x"]]), np.concatenate([private["y"], (test["y"] + 1) % 10])
    mixed, out = digits.folder / "mixed.npz", digits.folder / "baseline.json"
    write_arrays(mixed, SAMPLES, {"x": x, "y": y, "row": np.arange(len(x))}, private.meta)
    train_baseline.run(
        private=mixed, pool=None, truth=None, true_labels=None, test=digits.test, training=LOGISTIC, seed=0,
        stream="mixed", out=out,
    )  # fmt: skip
    assert read_json(out, "train_baseline")["accuracy"] > 0.93


def test_true_labels_show_what_students_could_learn(digits: Digits) -> None:
    """Train on exactly the given number of first pool samples."""
    out = digits.folder / "baseline.json"
    learn = partial(
        train_baseline.run, test=digits.test, training=LOGISTIC, seed=0,
        stream="digits/seed-0_pool-300/baseline/truth-200_logistic_modern", out=out,
    )  # fmt: skip
    learn(private=None, pool=digits.pool, truth=digits.truth, true_labels=200)
    told = read_json(out, "train_baseline")
    assert told["true_labels"] == 200
    assert 0.8 < told["accuracy"] < 0.97
    assert "private" not in told
    for wrong in ({"private": digits.private, "true_labels": 200}, {"private": None, "true_labels": None}):
        with pytest.raises(
            PatebenchError, match="the training data are incomplete or given twice; give either --private"
        ):
            learn(pool=digits.pool, truth=digits.truth, **wrong)
    with pytest.raises(PatebenchError, match=r"--true-labels is 301, but .*pool\.npz has 300 samples"):
        learn(private=None, pool=digits.pool, truth=digits.truth, true_labels=301)
