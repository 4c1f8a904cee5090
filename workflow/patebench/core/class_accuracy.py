"""How well labels are predicted, beside what the largest class alone gives.

An accuracy says little where one class is most of the samples: whoever always predicts that class reaches its share.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Classes are unbalanced if the largest one is more than this many times as large as with equal classes.
UNBALANCED = 1.25

#: What `class_accuracy` returns beside the accuracy.
BESIDE_ACCURACY = ("largest_class", "balanced_accuracy", "recall")


def class_accuracy(
    truth: NDArray[np.integer], predicted: NDArray[np.integer], names: Sequence[str], name: str = "{}"
) -> dict[str, Any]:
    """Return the accuracy of predictions, with what tells whether it is good.

    Parameters
    ----------
    truth, predicted : (samples,) int array; a prediction outside 0 … classes − 1 is wrong
    names : names of the classes, that of class 0 first
    name : format of the returned keys, such as "label_{}"

    Returns
    -------
    dict
        `accuracy`, the share of right predictions; `largest_class`, the share of samples in the largest class;
        `recall`, by the name of each class the share of its samples that is right, None without a sample; and
        `balanced_accuracy`, the mean of these. Without any sample all are None.
    """
    truth = np.asarray(truth, np.int64)
    samples = np.bincount(truth, minlength=len(names))
    right = np.bincount(truth[predicted == truth], minlength=len(names))
    recall = [int(correct) / int(count) if count else None for correct, count in zip(right, samples, strict=True)]
    known = [share for share in recall if share is not None]
    found = {
        "accuracy": float(np.mean(predicted == truth)) if known else None,
        "largest_class": float(samples.max() / len(truth)) if known else None,
        "balanced_accuracy": float(np.mean(known)) if known else None,
        "recall": dict(zip(names, recall, strict=True)),
    }
    return {name.format(what): value for what, value in found.items()}


def is_unbalanced(largest_class: float | None, recall: Mapping[str, Any] | None) -> bool:
    """Return True if the classes are unbalanced, by the share of the largest one and the recall of each class."""
    return bool(recall and largest_class is not None and largest_class * len(recall) > UNBALANCED)


def uncovered(labels: NDArray[np.integer], names: Sequence[str]) -> list[str]:
    """Return the names of the classes that none of the released `labels` (queries,) is of."""
    return [name for number, name in enumerate(names) if not (labels == number).any()]
