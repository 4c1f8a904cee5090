"""Which released labels to learn from: noise makes some of them wrong, and a student believes what it has learnt.

Each label is judged by a student that has not seen it, of the labels in the other folds (cross-fitting, as in Northcutt
et al. 2021, *Confident learning*). What noise made of a label is improbable to that student; what all teachers
took for the class is not, and stays.
"""

from collections.abc import Callable

import numpy as np
import torch

from patebench.students.lesson import Lesson, Student

_FOLDS = 4
#: A label below this probability is left out, …
_IMPROBABLE = 0.1
#: … unless that befalls more than this share of them: then the students that judge have rather learnt too little; …
_MOST = 0.25
#: … or less than this one: those labels are rather of rare samples than wrong. A few wrong ones do little harm, and the
#: only label of a kind of sample is worth all samples of that kind.
_LEAST = 0.05


def screened(lesson: Lesson, learnt: Callable[[Lesson], Student]) -> Lesson:
    """The lesson without the labels that are improbable to students `learnt` from the others.

    Classes with fewer labels than folds keep theirs. The folds, which share out each class, come from torch's global
    generator.
    """
    answered, labels = lesson.answered, lesson.labels[lesson.answered]
    shuffled = torch.randperm(len(answered)).numpy()
    fold = np.empty(len(answered), int)
    fold[shuffled[np.argsort(labels[shuffled], kind="stable")]] = np.arange(len(answered)) % _FOLDS
    probability = np.ones(len(answered))
    for held in (np.flatnonzero(fold == number) for number in range(_FOLDS)):
        if 0 < len(held) < len(answered):
            found = learnt(lesson.without(answered[held])).log_probabilities(lesson.pool[answered[held]])
            probability[held] = np.exp(found[np.arange(len(held)), labels[held]])
    improbable = (probability < _IMPROBABLE) & (np.bincount(labels)[labels] >= _FOLDS)
    return lesson.without(answered[improbable]) if _LEAST <= improbable.mean() <= _MOST else lesson
