"""Compare accuracy, recall and the share of the largest class with scikit-learn."""

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, balanced_accuracy_score, recall_score

from patebench.core.class_accuracy import class_accuracy, is_unbalanced, uncovered

NAMES = ["healthy", "mild", "severe"]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shares", [(0.69, 0.27, 0.04), (0.5, 0.5, 0.0)])
def test_accuracy_and_recall_agree_with_scikit_learn(shares: tuple[float, ...]) -> None:
    truth = RNG.choice(3, size=500, p=shares)
    predicted = np.where(RNG.random(500) < 0.7, truth, RNG.integers(2, size=500))
    found = class_accuracy(truth.astype(np.uint8), predicted, NAMES, "label_{}")
    assert found["label_accuracy"] == pytest.approx(accuracy_score(truth, predicted))
    assert found["label_balanced_accuracy"] == pytest.approx(balanced_accuracy_score(truth, predicted))
    assert found["label_largest_class"] == accuracy_score(truth, np.full(500, np.bincount(truth).argmax()))
    with pytest.warns(UndefinedMetricWarning) if 0 in shares else np.errstate():
        recall = recall_score(truth, predicted, labels=range(3), average=None)
    expected = {name: None if share == 0 else right for name, share, right in zip(NAMES, shares, recall, strict=True)}
    assert found["label_recall"] == pytest.approx(expected)


def test_an_abstention_is_wrong_and_accuracy_without_samples_is_none() -> None:
    assert class_accuracy(np.array([0, 1]), np.array([-1, 1]), NAMES)["accuracy"] == 0.5
    none = class_accuracy(np.array([], int), np.array([], int), NAMES)
    assert [none[name] for name in ("accuracy", "largest_class", "balanced_accuracy")] == [None] * 3


@pytest.mark.parametrize(
    ("largest", "classes", "expected"), [(0.69, 3, True), (0.4, 3, False), (0.12, 10, False), (0.2, 10, True)]
)
def test_classes_are_unbalanced_from_five_quarters_of_an_equal_share(
    largest: float, classes: int, expected: bool
) -> None:
    assert is_unbalanced(largest, dict.fromkeys(map(str, range(classes)), 0.5)) is expected
    assert is_unbalanced(1 / classes, {"common": 0.9, "rare": 0.2})  # a class that is mostly predicted wrong
    assert not is_unbalanced(None, None)
    assert not is_unbalanced(float("nan"), {"a": 0.5})


def test_classes_without_a_label_are_named() -> None:
    assert uncovered(np.array([0, -1, 0, 1]), NAMES) == ["severe"]
    assert uncovered(np.array([2, 0, 1]), NAMES) == []
