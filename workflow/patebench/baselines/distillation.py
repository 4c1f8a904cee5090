"""The stage `patebench distil` (PATE 2017, Figure 5 and Appendix C.1): what probabilities teach beyond plain labels.

Without noise, and from votes and probabilities that no student sees: nothing here is private.
"""

import itertools
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from patebench.accounting.votes import counts
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, write_json
from patebench.core.formats import POOL, VOTES
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.data.stage import read_samples
from patebench.models.learner import epochs_of, make
from patebench.models.network import Network

log = logging.getLogger("patebench")

PLURALITY = "plurality"


def distil(
    *,
    votes: Path,
    pool: Path,
    test: Path,
    samples: Sequence[int],
    model: str,
    recipe: str,
    epochs: int | None,
    seed: int,
    stream: str,
    out: Path,
) -> None:
    """Train a network for each kind of label on each number of `samples`, the first of the pool.

    Writes the accuracies on the test set to `out`, as JSON of kind "distillation".
    """
    source, public, exam = read_arrays(votes, VOTES), read_arrays(pool, POOL), read_samples(test, "test")
    source.require("pool", public.digest, str(pool))
    if max(samples) > len(public["x"]):
        raise PatebenchError(f"{max(samples)} samples are asked for, and {pool} holds {len(public['x'])}")
    kinds = dict(targets(source))
    learnt = []
    with progress(f"distillation, {model}", len(kinds) * len(samples), "networks") as done:
        for number, ((name, temperature), target) in itertools.product(sorted(samples), kinds.items()):
            learner = make(model, recipe, classes=source.meta["classes"], epochs=epochs)
            if not isinstance(learner, Network):
                raise PatebenchError(f"'{model}' is no network, and only they learn from probabilities; use mlp")
            # One seed for all kinds of labels, so that they differ in nothing else.
            fit(learner, public["x"][:number], target[:number], temperature, seed=derive(seed, stream, number))
            accuracy = float(np.mean(learner.predict(exam["x"]) == exam["y"]))
            log.info("%s, T = %g, %d samples: %.2f%% on the test set", name, temperature, number, 100 * accuracy)
            learnt.append({"labels": name, "temperature": temperature, "samples": number, "accuracy": accuracy})
            done(len(learnt))
    facts = {"model": model, "recipe": recipe, "epochs": epochs_of(recipe, epochs), "seed": seed}
    write_json(out, "distillation", {"votes": source.digest, "test": exam.digest, **facts, "learnt": learnt})


def targets(votes: Artefact) -> Iterator[tuple[tuple[str, float], NDArray[np.float64]]]:
    """Each kind of label, by its name and temperature: the probability of every class for every query.

    The plurality's are 0 and 1; soft ones are the sum of the teachers' probabilities, normalised (Figure 5).
    """
    if "soft" not in votes.arrays:
        raise ArtefactError(
            votes.path, "it lacks the teachers' probabilities", "give the ensemble soft: [1, 5] and train it again"
        )
    classes = votes.meta["classes"]
    yield (PLURALITY, 1.0), np.eye(classes)[counts(votes["votes"], classes).argmax(axis=1)]
    for temperature, total in zip(votes.meta["temperatures"], votes["soft"].astype(np.float64), strict=True):
        yield ("soft", float(temperature)), total / total.sum(axis=1, keepdims=True)


def fit(learner: Network, x: NDArray[Any], target: NDArray[np.float64], temperature: float, *, seed: int) -> None:
    """Fit a network to the probabilities (samples × classes) of `x`, both softened by the temperature.

    As Hinton et al. (2015), Section 2, have it: the loss is times T², so that its gradients keep their size.
    """
    wanted = torch.from_numpy(target).float().to(learner.device)

    def loss(logits: Tensor, positions: Tensor) -> Tensor:
        return temperature**2 * F.cross_entropy(logits / temperature, wanted[positions])

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fitting = learner.begin(x, np.arange(len(x)), seed=seed, loss=loss)
        for _ in range(learner.recipe.epochs):
            fitting.epoch()
        learner.net = fitting.result
