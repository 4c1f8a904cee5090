"""Test that students learn only from released labels, and store their inputs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.digits import STREAM, Digits

from patebench.config.parameters import StudentParameters
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import PREDICTIONS, SAMPLES, TRUTH
from patebench.stages import train_student
from patebench.students import student_training


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    return Digits(tmp_path_factory.mktemp("students"))


@pytest.fixture
def truth(digits: Digits) -> np.ndarray:
    return read_arrays(digits.truth, TRUTH)["y"].astype(np.int32)


def test_right_labels_make_a_good_student_and_wrong_ones_a_bad_one(digits: Digits, truth: np.ndarray) -> None:
    good = digits.train(digits.release(truth))
    bad = digits.train(digits.release((truth + 3) % 10))
    assert good["accuracy"] > 0.85
    assert bad["accuracy"] < 0.15
    assert good["queries"] == good["answered"] == 200
    with pytest.raises(PatebenchError, match=r"--queries is 400, but .*labels\.npz contains 300 labels"):
        digits.train(digits.release(truth), queries=400)


def test_only_the_first_queries_and_only_answered_ones_count(digits: Digits, truth: np.ndarray) -> None:
    """Change labels after the first T and samples without an answer: the result stays the same."""
    half = truth.copy()
    half[1:200:2] = -1
    garbage_after = half.copy()
    garbage_after[200:] = 0
    first, second = digits.train(digits.release(half)), digits.train(digits.release(garbage_after))
    assert first["answered"] == second["answered"] == 100
    assert first["accuracy"] == second["accuracy"]
    with pytest.raises(
        ArtefactError,
        match="none of its first 200 queries was answered, so no label is left for training; train on more queries",
    ):
        digits.train(digits.release(np.full(300, -1)))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["supervised", "consistency"])
def test_a_student_needs_pool_and_labels_and_the_test_set_steers_nothing(
    method: str, digits: Digits, truth: np.ndarray, tmp_path: Path
) -> None:
    """Train again in a folder without votes and true labels, with other test labels."""
    parameters = StudentParameters(method=method, epochs=2, hold_out=0.2)
    labels = digits.release(truth)
    told = digits.train(labels, parameters=parameters)
    for path in (digits.pool, labels):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    test = read_arrays(digits.test, SAMPLES)
    write_arrays(tmp_path / "test.npz", SAMPLES, {**test.arrays, "y": (test["y"] + 1) % 10}, test.meta)
    files = {name: tmp_path / f"{name}.npz" for name in ("pool", "labels", "test", "predictions")}
    train_student.run(**files, queries=200, parameters=parameters, seed=0, stream=STREAM, out=tmp_path / "student.json")
    turned = read_json(tmp_path / "student.json", "train_student")
    for row, other in zip(told["curve"], turned["curve"], strict=True):
        assert row | {"accuracy": None} == other | {"accuracy": None}
    assert told["held_out_accuracy"] == turned["held_out_accuracy"]
    assert told["accuracy"] + turned["accuracy"] <= 1
    predicted = read_arrays(tmp_path / "predictions.npz", PREDICTIONS)["probabilities"]
    np.testing.assert_allclose(predicted.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.slow
def test_a_killed_job_ends_with_the_same_bytes(
    digits: Digits, truth: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels, parameters = digits.release(truth), StudentParameters(method="consistency", epochs=4)
    digits.train(labels, parameters=parameters)
    whole = (digits.folder / "student.json").read_bytes()
    (digits.folder / "student.json").unlink()

    @contextmanager
    def killed(what: str, total: int | None, unit: str) -> Iterator[Callable[[int, int], None]]:
        def done(epoch: int, of: int) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

        yield done

    monkeypatch.setattr(student_training, "Checkpoint", partial(student_training.Checkpoint, seconds=0))
    with monkeypatch.context() as context:
        context.setattr(train_student, "progress", killed)
        with pytest.raises(KeyboardInterrupt):
            digits.train(labels, parameters=parameters)
    assert (digits.folder / "student.checkpoint").is_file()
    assert not (digits.folder / "student.json").exists()
    digits.train(labels, parameters=parameters)
    assert (digits.folder / "student.json").read_bytes() == whole
    assert not (digits.folder / "student.checkpoint").exists()


def test_held_out_labels_are_not_learnt(digits: Digits, truth: np.ndarray) -> None:
    parameters = StudentParameters(method="supervised", model="logistic", hold_out=0.25)
    told = digits.train(digits.release(truth), parameters=parameters)
    assert (told["answered"], told["held_out"]) == (200, 50)
    assert told["held_out_accuracy"] > 0.8
    with refuses("bound"):
        StudentParameters.checked({"method": "supervised", "hold_out": 1.5})


def test_classes_that_no_label_covers_are_named(
    digits: Digits, truth: np.ndarray, caplog: pytest.LogCaptureFixture
) -> None:
    """Use only the released labels: the pool contains samples of these classes, whose true labels are not read."""
    told = digits.train(digits.release(np.where(np.isin(truth, [3, 8]), -1, truth)))
    assert any("3, 8" in line and "no released label" in line for line in caplog.messages)
    assert told["recall"]["3"] == told["recall"]["8"] == 0
    assert told["balanced_accuracy"] == pytest.approx(np.mean(list(told["recall"].values())))
    caplog.clear()
    digits.train(digits.release(truth))
    assert not any("no released label" in line for line in caplog.messages)
