"""A collection of binary experts, one for each class (PATE 2017, Appendix C.2, second attempt)."""

import logging

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.seeds import derive, generator
from patebench.models.learner import make_learner
from patebench.students.strategies.acquisition_state import AcquisitionState
from patebench.students.supervised import model_and_recipe

log = logging.getLogger("patebench")

#: A sample is unconfident if its candidate class scores below CANDIDATE, and at least OTHERS other classes above OTHER.
CANDIDATE, OTHER, OTHERS = 0.9, 0.1, 4


def acquire(state: AcquisitionState, queries: int, seed: int) -> NDArray[np.intp]:
    """Unconfident samples in random order; if there are too few of them, others at random after them.

    That keeps the number of queries, so that strategies can be compared. Raises PatebenchError if there are too few
    classes for a sample to be unconfident.
    """
    if state.data.classes <= OTHERS:
        raise PatebenchError(
            f"binary-experts queries samples where {OTHERS} other experts are in doubt, and there are"
            f" {state.data.classes} classes in all; use least-confident"
        )
    shuffled = generator(seed, "order").permutation(state.unqueried)
    doubtful = unconfident(scores(state, shuffled, seed))
    log.info("%d of %d open samples are unconfident; %d are queried", doubtful.sum(), len(shuffled), queries)
    chosen: NDArray[np.intp] = np.concatenate([shuffled[doubtful], shuffled[~doubtful]])[:queries]
    return chosen


def unconfident(scores: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Which samples the published rule selects (samples,), from the experts' scores (samples, classes)."""
    ordered = np.sort(scores, axis=1)
    result: NDArray[np.bool_] = (ordered[:, -1] < CANDIDATE) & (ordered[:, -1 - OTHERS] > OTHER)
    return result


def scores(state: AcquisitionState, samples: NDArray[np.intp], seed: int) -> NDArray[np.float64]:
    """For each class, its expert's probability that a sample belongs to it (samples, classes).

    `samples` are positions in the pool. An expert is trained on all labels released so far: its class against the rest.
    """
    data, config = state.data, state.config
    x, y = data.pool[data.labelled], data.labels[data.labelled]
    model, recipe = model_and_recipe(data, config)
    found = np.zeros((len(samples), data.classes))
    for label in range(data.classes):
        expert = make_learner(model, recipe, classes=2, epochs=config.epochs)
        expert.fit(x, (y == label).astype(np.int64), seed=derive(seed, "expert", label))
        found[:, label] = np.exp(expert.log_probabilities(data.pool[samples])[:, 1])
    return found
