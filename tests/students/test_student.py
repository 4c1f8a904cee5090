"""Students learn from released labels alone, and say so."""

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from patebench.baselines.non_private import baseline
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import LABELS, POOL, SAMPLES, TRUTH
from patebench.data.stage import make_data, split
from patebench.students import STUDENTS, stage, training
from patebench.students.lesson import Approach
from patebench.students.stage import study

STREAM = "digits/seed-0_pool-300/teachers-10_iid_logistic_modern/lnmax/gamma-0.1/supervised_queries-200_logistic_modern"
LOGISTIC = Approach(method="supervised", model="logistic")


class World:
    """The digits' pool with labels that a test chooses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.private, self.public = folder / "private.npz", folder / "public.npz"
        self.pool, self.truth, self.test = folder / "pool.npz", folder / "truth.npz", folder / "test.npz"
        make_data("digits", folder, {}, False, self.private, self.public)
        split(self.private, self.public, 300, None, 0, STREAM, self.pool, self.truth, self.test)

    def release(self, labels: np.ndarray, pool: str | None = None) -> Path:
        pool = pool or read_arrays(self.pool, POOL).digest
        facts = {"votes": "", "pool": pool, "classes": 10, "mechanism": "lnmax", "parameters": {}, "mode": "seeded"}
        path = self.folder / "labels.npz"
        write_arrays(path, LABELS, {"labels": labels.astype(np.int32)}, facts)
        return path

    def turned(self) -> Path:
        """The test set with other labels: whoever is right about a sample is now wrong."""
        test, path = read_arrays(self.test, SAMPLES), self.folder / "turned.npz"
        write_arrays(path, SAMPLES, {**test.arrays, "y": (test["y"] + 1) % 10}, test.meta)
        return path

    def study(
        self,
        labels: Path,
        queries: int = 200,
        approach: Approach = LOGISTIC,
        hold_out: float = 0.0,
        test: Path | None = None,
    ) -> dict:
        out = self.folder / "student.json"
        study(
            pool=self.pool, labels=labels, test=test or self.test, approach=approach, queries=queries,
            hold_out=hold_out, seed=0, stream=STREAM, out=out,
        )  # fmt: skip
        return read_json(out, "student")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("students"))


@pytest.fixture
def truth(world: World) -> np.ndarray:
    return read_arrays(world.truth, TRUTH)["y"].astype(np.int32)


def test_right_labels_make_a_good_student_and_wrong_ones_a_bad_one(world: World, truth: np.ndarray) -> None:
    good = world.study(world.release(truth))
    bad = world.study(world.release((truth + 3) % 10))
    assert good["accuracy"] > 0.85
    assert bad["accuracy"] < 0.15
    assert good["queries"] == good["answered"] == 200


def test_only_the_first_queries_and_only_answered_ones_count(world: World, truth: np.ndarray) -> None:
    """Labels after the first T, and samples without an answer, change nothing."""
    half = truth.copy()
    half[1:200:2] = -1
    garbage_after = half.copy()
    garbage_after[200:] = 0
    first, second = world.study(world.release(half)), world.study(world.release(garbage_after))
    assert first["answered"] == second["answered"] == 100
    assert first["accuracy"] == second["accuracy"]


def test_a_release_without_answers_is_refused(world: World) -> None:
    with pytest.raises(ArtefactError, match="none of its first 200 queries was answered; use less noise"):
        world.study(world.release(np.full(300, -1)))


def test_more_queries_than_released_are_refused(world: World, truth: np.ndarray) -> None:
    with pytest.raises(PatebenchError, match=r"400 queries are asked for, and .*labels\.npz holds 300"):
        world.study(world.release(truth), queries=400)


def test_labels_of_another_pool_are_refused(world: World, truth: np.ndarray) -> None:
    with pytest.raises(ArtefactError, match="it was made with another pool than"):
        world.study(world.release(truth, pool="0" * 64))


def test_the_baseline_sees_all_private_data(world: World) -> None:
    out = world.folder / "baseline.json"
    stream = "digits/seed-0_pool-300/baseline/logistic_modern"
    baseline(
        private=world.private, pool=None, truth=None, queries=None, test=world.test,
        model="logistic", recipe="modern", epochs=None, seed=0, stream=stream, out=out,
    )  # fmt: skip
    told = read_json(out, "baseline")
    assert told["accuracy"] > 0.93
    assert (told["dataset"], told["split"], told["learner"]) == ("digits", "seed-0_pool-300", "logistic_modern")


def test_true_labels_show_what_students_could_learn(world: World) -> None:
    """From so many of the pool's samples, and from nothing else."""
    out = world.folder / "baseline.json"
    learn = partial(
        baseline, test=world.test, model="logistic", recipe="modern", epochs=None, seed=0,
        stream="digits/seed-0_pool-300/baseline/truth-200_logistic_modern", out=out,
    )  # fmt: skip
    learn(private=None, pool=world.pool, truth=world.truth, queries=200)
    told = read_json(out, "baseline")
    assert told["truth"] == 200
    assert 0.8 < told["accuracy"] < 0.97
    assert "private" not in told
    for wrong in ({"private": world.private, "queries": 200}, {"private": None, "queries": None}):
        with pytest.raises(PatebenchError, match="either the private samples, or the pool"):
            learn(pool=world.pool, truth=world.truth, **wrong)
    with pytest.raises(PatebenchError, match=r"301 queries are asked for, and .*pool\.npz holds 300"):
        learn(private=None, pool=world.pool, truth=world.truth, queries=301)


def steered(told: dict) -> list[dict]:
    """The learning curve but for what was seen of the test set."""
    return [{name: value for name, value in row.items() if name != "accuracy"} for row in told["curve"]]


@pytest.mark.parametrize("method", STUDENTS.names())
def test_the_test_set_steers_nothing(method: str, world: World, truth: np.ndarray) -> None:
    """With the test set's labels turned round, every loss and every held-out label is as before."""
    approach = Approach(method=method, epochs=2)
    labels = world.release(truth)
    told = world.study(labels, approach=approach, hold_out=0.2)
    turned = world.study(labels, approach=approach, hold_out=0.2, test=world.turned())
    assert steered(told) == steered(turned)
    assert told["held_out_accuracy"] == turned["held_out_accuracy"]
    assert told["accuracy"] + turned["accuracy"] <= 1


@pytest.mark.parametrize("method", STUDENTS.names())
def test_pool_labels_and_test_set_are_all_that_is_there(
    method: str, world: World, truth: np.ndarray, tmp_path: Path
) -> None:
    """A student is trained where no votes, no counts and no true labels exist."""
    labels = world.release(truth)
    for path in (world.pool, labels, world.test):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    study(
        pool=tmp_path / "pool.npz", labels=tmp_path / "labels.npz", test=tmp_path / "test.npz",
        approach=Approach(method=method, epochs=1), queries=50, hold_out=0.0, seed=0, stream=STREAM,
        out=tmp_path / "student.json",
    )  # fmt: skip
    assert read_json(tmp_path / "student.json", "student")["queries"] == 50


def test_a_killed_job_ends_with_the_same_bytes(
    world: World, truth: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels, approach = world.release(truth), Approach(method="consistency", epochs=4)
    world.study(labels, approach=approach)
    whole = (world.folder / "student.json").read_bytes()
    (world.folder / "student.json").unlink()

    @contextmanager
    def killed(what: str, total: int | None, unit: str) -> Iterator[Callable[[int, int], None]]:
        def done(epoch: int, of: int) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

        yield done

    monkeypatch.setattr(training, "Checkpoint", partial(training.Checkpoint, seconds=0))
    with monkeypatch.context() as context:
        context.setattr(stage, "progress", killed)
        with pytest.raises(KeyboardInterrupt):
            world.study(labels, approach=approach)
    assert (world.folder / "student.checkpoint").is_file()
    assert not (world.folder / "student.json").exists()
    world.study(labels, approach=approach)
    assert (world.folder / "student.json").read_bytes() == whole
    assert not (world.folder / "student.checkpoint").exists()


def test_held_out_labels_are_not_learnt(world: World, truth: np.ndarray) -> None:
    told = world.study(world.release(truth), hold_out=0.25)
    assert (told["answered"], told["held_out"]) == (200, 50)
    assert told["held_out_accuracy"] > 0.8
    with pytest.raises(PatebenchError, match="give a share of the labels"):
        world.study(world.release(truth), hold_out=1.5)


def test_a_gan_leaves_a_picture_of_what_it_draws(world: World, truth: np.ndarray) -> None:
    told = world.study(world.release(truth), approach=Approach(method="gan", epochs=1))
    picture = (world.folder / "student.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert base64.b64decode(told["picture"]) == picture
