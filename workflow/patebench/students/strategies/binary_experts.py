"""A collection of binary experts (PATE 2017, Appendix C.2, second attempt)."""

import logging

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.seeds import derive, generator
from patebench.models.learner import make
from patebench.students.strategies.situation import Situation

log = logging.getLogger("patebench")

#: A sample is unconfident if its candidate scores below the first, and so many other experts score above the second.
CANDIDATE, OTHER, OTHERS = 0.9, 0.1, 4


def choose(situation: Situation, queries: int, seed: int) -> NDArray[np.intp]:
    """Unconfident samples, in random order; where there are too few of them, others at random after them.

    That keeps the number of queries, so that strategies can be compared.
    """
    if situation.lesson.classes <= OTHERS:
        raise PatebenchError(
            f"binary-experts asks where {OTHERS} other experts are in doubt, and there are"
            f" {situation.lesson.classes} classes in all; use least-confident"
        )
    shuffled = generator(seed, "order").permutation(situation.unasked)
    doubtful = unconfident(scores(situation, shuffled, seed))
    log.info("%d of %d open samples are unconfident; %d are asked", doubtful.sum(), len(shuffled), queries)
    chosen: NDArray[np.intp] = np.concatenate([shuffled[doubtful], shuffled[~doubtful]])[:queries]
    return chosen


def unconfident(scores: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Which samples the published rule selects, from the experts' scores (samples × classes)."""
    ordered = np.sort(scores, axis=1)
    result: NDArray[np.bool_] = (ordered[:, -1] < CANDIDATE) & (ordered[:, -1 - OTHERS] > OTHER)
    return result


def scores(situation: Situation, samples: NDArray[np.intp], seed: int) -> NDArray[np.float64]:
    """For each class, how sure an expert of its own is that the samples belong to it: samples × classes."""
    lesson, approach = situation.lesson, situation.approach
    x, y = lesson.pool[lesson.answered], lesson.labels[lesson.answered]
    model = approach.model or ("small-cnn" if lesson.pool.ndim == 4 else "mlp")
    found = np.zeros((len(samples), lesson.classes))
    for label in range(lesson.classes):
        expert = make(model, approach.recipe or "modern", classes=2, epochs=approach.epochs)
        expert.fit(x, (y == label).astype(np.int64), seed=derive(seed, "expert", label))
        found[:, label] = np.exp(expert.log_probabilities(lesson.pool[samples])[:, 1])
    return found
