"""What could be learnt without privacy: from all private data, the ceiling that tables show, or from true labels."""

import logging
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, write_json
from patebench.core.formats import POOL, TRUTH
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.data.stage import read_samples
from patebench.models.learner import epochs_of, make

log = logging.getLogger("patebench")


class _Samples(NamedTuple):
    """What is learnt from: samples (n, …), labels (n,), and the digests of the files they came from."""

    name: str
    x: NDArray[Any]
    y: NDArray[Any]
    classes: int
    of: dict[str, str]


def baseline(
    *,
    private: Path | None,
    pool: Path | None,
    truth: Path | None,
    queries: int | None,
    test: Path,
    model: str,
    recipe: str,
    epochs: int | None,
    seed: int,
    stream: str,
    out: Path,
) -> None:
    """Train one learner and write its test accuracy to `out`; `stream` is its results folder.

    It learns from all samples of `private`, or else from the first `queries` samples of `pool` with their `truth`:
    what a student could learn from labels without a fault (the "ground truth" of NZC's Table 1).
    """
    samples = _samples(private, pool, truth, queries)
    held_out = read_samples(test, "test")
    learner = make(model, recipe, classes=samples.classes, epochs=epochs)
    with progress(f"{model} of {samples.name}", epochs_of(recipe, epochs), "epochs") as done:
        learner.fit(samples.x, samples.y, seed=derive(seed, stream), progress=lambda epoch, _: done(epoch))
    accuracy = float(np.mean(learner.predict(held_out["x"]) == held_out["y"]))
    log.info("%s of %s: %.2f%% on the test set", model, samples.name, 100 * accuracy)
    dataset, split, _, learner_slug = stream.split("/")
    result = {
        **samples.of,
        "test": held_out.digest,
        "dataset": dataset,
        "split": split,
        "learner": learner_slug,
        "model": model,
        "recipe": recipe,
        "epochs": epochs_of(recipe, epochs),
        "seed": seed,
        "truth": queries,
        "accuracy": accuracy,
    }
    write_json(out, "baseline", result)


def _samples(private: Path | None, pool: Path | None, truth: Path | None, queries: int | None) -> _Samples:
    if private and not (pool or truth or queries):
        found = read_samples(private, "private")
        return _Samples("all private data", found["x"], found["y"], found.meta["classes"], {"private": found.digest})
    if private or not (pool and truth and queries):
        raise PatebenchError("give either the private samples, or the pool, its truth and a number of queries")
    asked, answers = read_arrays(pool, POOL), read_arrays(truth, TRUTH)
    answers.require("pool", asked.digest, str(pool))
    if queries > len(asked["x"]):
        raise PatebenchError(f"{queries} queries are asked for, and {pool} holds {len(asked['x'])}")
    of = {"pool": asked.digest, "labels": answers.digest}
    x, y = asked["x"][:queries], answers["y"][:queries]
    return _Samples(f"{queries} true labels", x, y, asked.meta["classes"], of)
