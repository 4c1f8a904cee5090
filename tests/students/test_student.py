"""Students learn from released labels alone, and say so."""

from pathlib import Path

import numpy as np
import pytest

from patebench.baselines.non_private import baseline
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import LABELS, POOL, TRUTH
from patebench.data.stage import make_data, split
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

    def study(self, labels: Path, queries: int = 200, approach: Approach = LOGISTIC, hold_out: float = 0.0) -> dict:
        out = self.folder / "student.json"
        study(
            pool=self.pool, labels=labels, test=self.test, approach=approach, queries=queries, hold_out=hold_out,
            seed=0, stream=STREAM, out=out,
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
        private=world.private, test=world.test, model="logistic", recipe="modern", epochs=None,
        seed=0, stream=stream, out=out,
    )  # fmt: skip
    told = read_json(out, "baseline")
    assert told["accuracy"] > 0.93
    assert (told["dataset"], told["split"], told["learner"]) == ("digits", "seed-0_pool-300", "logistic_modern")
