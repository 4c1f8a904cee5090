"""A supervised student that knows its labels to be noisy: it maximises the likelihood of what was released.

With local mechanisms that likelihood is exact and public (`Lesson.evidence`). For the others, what was released depends
on the private counts, so how often a label is wrong is estimated from the released labels alone: by cross-validation,
among the samples of which the held-out student is confident (after Northcutt et al. 2021, *Confident learning*).
Corrected as in Patrini et al. 2017 (*Making deep neural networks robust to label noise*), section 4.2.
"""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patebench.models.learner import Learner, epochs_of, make
from patebench.models.network import Network
from patebench.students.lesson import Approach, Lesson, Training
from patebench.students.supervised import OfNetwork, names, networks_only

_FOLDS = 4
#: Half of the labels wrong is more than any student can mend.
_MOST = 0.5


def start(lesson: Lesson, approach: Approach, seed: int) -> Training:
    """A network for those samples of the pool of which something was released."""
    model, recipe = names(lesson, approach)

    def learner() -> Learner:
        return make(model, recipe, classes=lesson.classes, epochs=approach.epochs)

    network = networks_only(learner(), model)
    evidence, rate = lesson.evidence, None
    if evidence is None:
        rate = wrong_rate(lesson, network, seed)
        evidence = np.log(symmetric(rate, lesson.classes))[:, lesson.labels].T
    x, told = lesson.pool[lesson.answered], evidence[lesson.answered]
    fitting = network.begin(x, np.arange(len(x)), seed=seed, loss=partial(loss, torch.from_numpy(told).float()))
    training = OfNetwork(network, fitting, model, recipe, epochs_of(recipe, approach.epochs))
    training.settings = {"channel": "public"} if rate is None else {"channel": "estimated", "wrong labels": rate}
    return training


def loss(evidence: Tensor, logits: Tensor, rows: Tensor) -> Tensor:
    """−ln Pr[what was released] of a batch, where `evidence` (samples, classes) holds its log-likelihoods.

    `rows` tells which samples the logits (batch, classes) are of.
    """
    told = evidence.to(logits.device)[rows]
    return -(logits.log_softmax(1) + told).logsumexp(1).mean()


def symmetric(rate: float, classes: int) -> NDArray[np.float64]:
    """The channel (meant × released) of labels of which a share `rate` is wrong, evenly over the other classes."""
    wrong = rate / (classes - 1)
    return np.full((classes, classes), wrong) + (1 - rate - wrong) * np.eye(classes)


def wrong_rate(lesson: Lesson, network: Network, seed: int) -> float:
    """The share of wrong labels, from those that a student of the other folds contradicts with confidence.

    A student is confident where its probability is at least its mean for samples that bear that label. The estimate is
    shrunk towards one half of a wrong label, and is never 0, so that no label counts as certain.
    """
    rows, labels = lesson.answered, lesson.labels[lesson.answered]
    folds = np.random.default_rng(seed).permutation(len(rows)) % _FOLDS
    found = np.zeros((len(rows), lesson.classes))
    for fold in range(min(_FOLDS, len(rows)) if len(rows) > 1 else 0):
        others, held = rows[folds != fold], rows[folds == fold]
        network.fit(lesson.pool[others], lesson.labels[others], seed=seed)
        found[folds == fold] = np.exp(network.log_probabilities(lesson.pool[held]))
    guesses = found.argmax(1)
    typical = np.array([found[labels == k, k].mean() if (labels == k).any() else 1.0 for k in range(lesson.classes)])
    confident = found.max(1) >= typical[guesses]
    contradicted = np.sum(confident & (guesses != labels))
    return float(min(_MOST, (contradicted + 0.5) / (confident.sum() + 1)))
