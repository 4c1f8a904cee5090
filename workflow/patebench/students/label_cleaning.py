"""Leave out released labels that are probably wrong: noise changed them, and a student would learn them as they are.

Each label is judged by a student that is trained on the other folds (cross-fitting, as in Northcutt et al. 2021,
*Confident learning*). A label that noise changed is improbable to that student. A wrong label on which most teachers
agree is not, and stays.
"""

from collections.abc import Callable

import numpy as np
import torch

from patebench.students.interface import Student, StudentData

_FOLDS = 4
#: A label with a probability below this one is left out, …
_IMPROBABLE = 0.1
#: … unless more than this share of the labels would be: the students that judge have then learnt too little; …
_MOST = 0.25
#: … or less than this share: those labels then belong to rare samples rather than being wrong. A few wrong labels do
#: little harm, and the only label of a kind of sample stands for all samples of that kind.
_LEAST = 0.05


def cleaned(data: StudentData, train: Callable[[StudentData], Student]) -> StudentData:
    """`data` without the labels that are improbable to students which `train` makes of the labels of other folds.

    Classes with fewer labels than folds keep theirs. Folds are stratified by class and drawn from torch's global
    generator.
    """
    labelled, labels = data.labelled, data.labels[data.labelled]
    shuffled = torch.randperm(len(labelled)).numpy()
    fold = np.empty(len(labelled), int)
    fold[shuffled[np.argsort(labels[shuffled], kind="stable")]] = np.arange(len(labelled)) % _FOLDS
    probability = np.ones(len(labelled))
    for held_out in (np.flatnonzero(fold == number) for number in range(_FOLDS)):
        if 0 < len(held_out) < len(labelled):
            judge = train(data.without(labelled[held_out]))
            found = judge.log_probabilities(data.pool[labelled[held_out]])
            probability[held_out] = np.exp(found[np.arange(len(held_out)), labels[held_out]])
    improbable = (probability < _IMPROBABLE) & (np.bincount(labels)[labels] >= _FOLDS)
    return data.without(labelled[improbable]) if _LEAST <= improbable.mean() <= _MOST else data
