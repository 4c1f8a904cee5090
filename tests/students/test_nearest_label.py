"""Labels of cells, against plain loops."""

import numpy as np
from tests.students.world import images, student_data, table

from patebench.students.interface import StudentConfig, StudentData
from patebench.students.student_training import train

CONFIG = StudentConfig(method="nearest-label")


def test_a_sample_has_the_label_of_the_cell_that_it_lies_in() -> None:
    """Features are the first two columns, with noise beside them that would lead elsewhere."""
    rng = np.random.default_rng(0)
    pool, unseen = (rng.normal(size=(size, 5)).astype(np.float32) * [0.1, 0.1, 9, 9, 9] for size in (300, 80))
    labels = np.full(300, -1)
    labels[[7, 30, 100, 250]] = [2, 0, 2, 1]
    data = StudentData(pool=pool, labels=labels, classes=3, features=lambda x: x[:, :2].astype(np.float64))
    student, curve = train(data, CONFIG, seed=0)
    asked = [7, 30, 100, 250]

    def first(x: np.ndarray, points: np.ndarray) -> list[int]:
        return [min(range(4), key=lambda c: float(np.sum((row[:2] - points[c]) ** 2))) for row in x]

    member = np.array(first(pool, pool[asked, :2]))
    means = np.array([pool[member == cell, :2].mean(axis=0) for cell in range(4)])
    expected = [[2, 0, 2, 1][cell] for cell in first(unseen, means)]
    assert student.log_probabilities(unseen).argmax(1).tolist() == expected
    assert len(curve) == 1


def test_without_features_samples_themselves_are_near_or_far() -> None:
    for make, classes in ((images, 4), (table, 2)):
        (x, y), (unseen, truth) = make(200, seed=0), make(200, seed=1)
        student, _ = train(student_data(x, y, 40, classes), CONFIG, seed=0)
        found = student.log_probabilities(unseen)
        assert np.mean(found.argmax(1) == truth) > 0.9
        assert set(np.exp(found).ravel()) == {0.0, 1.0}


def test_a_column_that_never_changes_and_a_large_one_do_no_harm() -> None:
    x, y = table(80, seed=0)
    other = np.column_stack([x[:, 0] * 1e6, x[:, 1:], np.full(80, 7)]).astype(np.float32)
    plain = np.column_stack([x, np.zeros(80)]).astype(np.float32)
    first, second = (
        train(student_data(each, y, 16, 2), CONFIG, seed=0)[0].log_probabilities(each) for each in (plain, other)
    )
    np.testing.assert_array_equal(first, second)
