"""Test the preparation of labels for students: removal of improbable labels, and estimated class shares."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from patebench.students.consistency import cleaned
from patebench.students.interface import StudentData
from patebench.students.semi_supervised import DistributionAlignment

TRUTH = np.arange(80) % 4


def student_data(labels: np.ndarray) -> StudentData:
    """Return a pool of 100 samples, which are their own positions; the first ones have `labels`."""
    return StudentData(pool=np.arange(100), labels=np.append(labels, np.full(100 - len(labels), -1)), classes=4)


class Oracle:
    """Student that predicts the class `truth[x]` of position `x` with probability 0.97."""

    def __init__(self, truth: np.ndarray) -> None:
        self.truth = truth

    def log_probabilities(self, x: np.ndarray) -> np.ndarray:
        return np.log(np.where(np.arange(4) == self.truth[x][:, None], 0.97, 0.01))


def wrong_at(*places: int) -> np.ndarray:
    return np.where(np.isin(np.arange(80), places), (TRUTH + 1) % 4, TRUTH)


def judge(truth: np.ndarray, given: list[np.ndarray]) -> Callable[[StudentData], Any]:
    """Return a function that trains an `Oracle` and appends the positions of its labels to `given`."""

    def train(part: StudentData) -> Oracle:
        given.append(part.labelled)
        return Oracle(truth)

    return train


def test_labels_that_others_contradict_are_left_out() -> None:
    released = wrong_at(3, 10, 50, 66)
    torch.manual_seed(0)
    kept = cleaned(student_data(released), judge(TRUTH, []))
    assert set(np.flatnonzero(kept.labels[:80] < 0)) == {3, 10, 50, 66}
    assert np.array_equal(kept.labels[kept.labelled], released[kept.labelled])


def test_no_label_is_judged_by_a_student_that_has_seen_it() -> None:
    """Each of four students lacks a quarter of the labels, equally many of each class; each label is left out once."""
    given: list[np.ndarray] = []
    cleaned(student_data(TRUTH), judge(TRUTH, given))
    missed = [np.setdiff1d(np.arange(80), part) for part in given]
    assert sorted(np.concatenate(missed)) == list(range(80))
    assert all((np.bincount(TRUTH[part], minlength=4) == 5).all() for part in missed)


FEW_OF_A_CLASS = np.where(np.arange(80) < 3, 3, TRUTH % 3)


@pytest.mark.parametrize(
    ("released", "believed"),
    [
        (FEW_OF_A_CLASS, np.append(np.zeros(3, int), FEW_OF_A_CLASS[3:])),
        (TRUTH, np.where(np.arange(80) % 3 == 0, (TRUTH + 1) % 4, TRUTH)),
        (wrong_at(3, 10, 50), TRUTH),
        (TRUTH[:1], TRUTH),
    ],
    ids=["a class with few labels", "many are doubted", "few are doubted", "a single label"],
)
def test_all_labels_are_kept(released: np.ndarray, believed: np.ndarray) -> None:
    assert len(cleaned(student_data(released), judge(believed, [])).labelled) == len(released)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((20, 0, 0, 0), [0.9625, 0.0125, 0.0125, 0.0125]),  # χ² = 60, of which chance explains 3
        ((9, 5, 3, 3), [0.25 + 0.0375 * each for each in (2, 0, -1, -1)]),  # χ² = 24/5, so 3/8 of (0.2, 0, −0.1, −0.1)
        ((6, 4, 5, 5), [0.25] * 4),  # χ² = 2/5: chance explains more
        ((5, 5, 5, 5), [0.25] * 4),
        ((0, 0, 0, 0), [0.25] * 4),
    ],
)
def test_shares_of_the_classes_are_drawn_towards_equal_ones(counts: tuple[int, ...], expected: list[float]) -> None:
    labels = np.repeat(np.arange(4), counts)
    assert DistributionAlignment(student_data(labels)).shares.tolist() == pytest.approx(expected)


def test_guesses_are_aligned_with_the_shares() -> None:
    """If all predictions are (.4, .2, .2, .2) and the shares are equal, aligned predictions are equal."""
    alignment = DistributionAlignment(student_data(TRUTH))
    guess = torch.tensor([[0.4, 0.2, 0.2, 0.2]]).expand(8, 4)
    for _ in range(2000):
        aligned = alignment(guess)
    assert aligned.flatten().tolist() == pytest.approx([0.25] * 32, abs=1e-4)
    sharp = torch.tensor([[0.4, 0.6, 0.0, 0.0]])  # (.4/.4, .6/.2) after scaling, so 1 to 3
    assert alignment(sharp)[0].tolist() == pytest.approx([0.25, 0.75, 0, 0], abs=0.01)
