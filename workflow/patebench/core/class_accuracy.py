"""Compute the accuracy of predicted labels, the recall of each class and the share of the largest class.

The share of the largest class is a baseline: a model that always predicts this class reaches this accuracy.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Classes are unbalanced if the largest share exceeds this multiple of 1/classes.
UNBALANCED = 1.25

#: Keys that `class_accuracy` returns in addition to the accuracy.
BESIDE_ACCURACY = ("largest_class", "balanced_accuracy", "recall")


def class_accuracy(
    truth: NDArray[np.integer], predicted: NDArray[np.integer], names: Sequence[str], name: str = "{}"
) -> dict[str, Any]:
    """Return the accuracy of predicted labels, the recall of each class and the share of the largest class.

    Parameters
    ----------
    truth, predicted : (samples,) int array; a prediction outside 0 … classes − 1 is wrong
    names : names of the classes in order
    name : format of the returned keys; for example, "label_{}" changes the key `accuracy` to `label_accuracy`

    Returns
    -------
    dict
        `accuracy` is the share of correct predictions. `largest_class` is the share of samples in the largest class.
        `recall` is a dict from class name to recall (None for a class without samples). `balanced_accuracy` is the mean
        recall. Without samples, all numbers are None.
    """
    truth = np.asarray(truth, np.int64)
    samples = np.bincount(truth, minlength=len(names))
    right = np.bincount(truth[predicted == truth], minlength=len(names))
    recall = [int(correct) / int(count) if count else None for correct, count in zip(right, samples, strict=True)]
    known = [share for share in recall if share is not None]
    measures = {
        "accuracy": float(np.mean(predicted == truth)) if known else None,
        "largest_class": float(samples.max() / len(truth)) if known else None,
        "balanced_accuracy": float(np.mean(known)) if known else None,
        "recall": dict(zip(names, recall, strict=True)),
    }
    return {name.format(measure): value for measure, value in measures.items()}


def is_unbalanced(largest_class: float | None, recall: Mapping[str, Any] | None) -> bool:
    """Return True if the accuracy alone may mislead, because one class dominates or is mostly predicted wrong.

    A class dominates if its share of the samples exceeds `UNBALANCED` divided by the number of classes. A class is
    mostly predicted wrong if its recall is below half the mean recall. `largest_class` and `recall` are the values that
    `class_accuracy` returns.
    """
    if not recall or largest_class is None:
        return False
    known = [share for share in recall.values() if share is not None]
    hidden = bool(known) and min(known) < 0.5 * sum(known) / len(known)
    return hidden or largest_class * len(recall) > UNBALANCED


def uncovered(labels: NDArray[np.integer], names: Sequence[str]) -> list[str]:
    """Return the names of the classes that do not occur in the released `labels`.

    `labels` (queries,) are positions in `names`, the names of all classes.
    """
    return [name for number, name in enumerate(names) if not (labels == number).any()]
