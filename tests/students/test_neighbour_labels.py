"""Compare nearest labels with plain loops, and label spreading with its closed form; test unreached samples."""

import numpy as np
import pytest
from tests.students.world import images, student_data, table

from patebench.students import neighbour_labels
from patebench.students.interface import StudentConfig, StudentData
from patebench.students.neighbour_labels import Spreading
from patebench.students.student_training import train

CONFIG = StudentConfig(method="label-spreading")
NEAREST = StudentConfig(method="nearest-label")


def test_labels_spread_as_in_the_closed_form() -> None:
    """F = (I − αS)⁻¹ Y with S the normalised affinities (Zhou et al. 2004, section 2), by a solver."""
    x, y = table(60, seed=0)
    labels = np.where(np.arange(60) < 10, y, -1)
    spreading = Spreading("rbf")
    spreading.fit(x, labels)
    gamma = spreading.model.gamma
    alike = np.exp(-gamma * ((x[:, None] - x) ** 2).sum(2, dtype=np.float64)) * (1 - np.eye(60))
    degree = alike.sum(1) ** -0.5
    spread = np.linalg.solve(np.eye(60) - 0.8 * degree[:, None] * alike * degree, labels[:, None] == [0, 1])
    np.testing.assert_allclose(spreading.model.label_distributions_, spread / spread.sum(1, keepdims=True), atol=0.01)


@pytest.mark.parametrize("dense", [10, 1000])
def test_large_pools_have_a_graph_of_nearest_neighbours(dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour_labels, "_DENSE", dense)
    x, y = images(160, seed=0)
    unseen, truth = images(200, seed=1)
    student, _ = train(student_data(x, y, 24), CONFIG, seed=0)
    assert student.settings["kernel"] == ("knn" if dense == 10 else "rbf")
    assert np.mean(student.log_probabilities(unseen).argmax(1) == truth) > 0.9


@pytest.mark.parametrize("dense", [10, 1000])
def test_where_no_label_arrives_all_classes_are_as_likely(dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clusters far from each other, one without a label; class 2 has no label anywhere."""
    monkeypatch.setattr(neighbour_labels, "_DENSE", dense)
    x = np.concatenate([np.random.default_rng(0).normal(size=(20, 1)), np.full((20, 1), 1e6)]).astype(np.float32)
    labels = np.where(np.arange(40) < 6, np.arange(40) % 2, -1)
    student, _ = train(StudentData(pool=x, labels=labels, classes=3), CONFIG, seed=0)
    found = np.exp(student.log_probabilities(np.float32([[0.0], [1e6]])))
    np.testing.assert_allclose(found.sum(1), 1)
    np.testing.assert_array_equal(found[:, 2], 0)
    np.testing.assert_allclose(found[1], [0.5, 0.5, 0])


def test_a_sample_has_the_label_of_the_cell_that_it_lies_in() -> None:
    """Features are the first two columns; the other columns are noise of a larger scale."""
    rng = np.random.default_rng(0)
    pool, unseen = (rng.normal(size=(size, 5)).astype(np.float32) * [0.1, 0.1, 9, 9, 9] for size in (300, 80))
    labels = np.full(300, -1)
    labels[[7, 30, 100, 250]] = [2, 0, 2, 1]
    data = StudentData(pool=pool, labels=labels, classes=3, features=lambda x: x[:, :2].astype(np.float64))
    student, curve = train(data, NEAREST, seed=0)
    asked = np.flatnonzero(labels >= 0)

    def first(x: np.ndarray, points: np.ndarray) -> list[int]:
        return [min(range(4), key=lambda c: float(np.sum((row[:2] - points[c]) ** 2))) for row in x]

    member = np.array(first(pool, pool[asked, :2]))
    means = np.array([pool[member == cell, :2].mean(axis=0) for cell in range(4)])
    expected = [[2, 0, 2, 1][cell] for cell in first(unseen, means)]
    assert student.log_probabilities(unseen).argmax(1).tolist() == expected
    assert len(curve) == 1


@pytest.mark.parametrize(("config", "tolerance"), [(CONFIG, 1e-3), (NEAREST, 0)], ids=["spreading", "nearest"])
def test_the_scale_of_a_feature_and_a_constant_column_do_not_matter(config: StudentConfig, tolerance: float) -> None:
    x, y = table(80, seed=0)
    plain = np.column_stack([x, np.zeros(80)]).astype(np.float32)
    scaled = np.column_stack([x * [1, 1e6, 1e-3, 1, 64, 1], np.full(80, 7)]).astype(np.float32)
    first, second = (
        train(student_data(each, y, 16, 2), config, seed=0)[0].log_probabilities(each) for each in (plain, scaled)
    )
    np.testing.assert_allclose(first, second, atol=tolerance)
