"""The non-private model: one learner trained on all private data, the ceiling that every table shows."""

import logging
from pathlib import Path

import numpy as np

from patebench.core.files import write_json
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.data.stage import read_samples
from patebench.models.learner import epochs_of, make

log = logging.getLogger("patebench")


def baseline(
    *,
    private: Path,
    test: Path,
    model: str,
    recipe: str,
    epochs: int | None,
    seed: int,
    stream: str,
    out: Path,
) -> None:
    """Train one learner on all private data and write its test accuracy to `out`; `stream` is its results folder."""
    samples, held_out = read_samples(private, "private"), read_samples(test, "test")
    learner = make(model, recipe, classes=samples.meta["classes"], epochs=epochs)
    with progress(f"non-private {model}", epochs_of(recipe, epochs), "epochs") as done:
        learner.fit(samples["x"], samples["y"], seed=derive(seed, stream), progress=lambda epoch, _: done(epoch))
    accuracy = float(np.mean(learner.predict(held_out["x"]) == held_out["y"]))
    log.info("non-private %s: %.2f%% on the test set", model, 100 * accuracy)
    dataset, split, _, learner_slug = stream.split("/")
    result = {
        "private": samples.digest,
        "test": held_out.digest,
        "dataset": dataset,
        "split": split,
        "learner": learner_slug,
        "model": model,
        "recipe": recipe,
        "epochs": epochs_of(recipe, epochs),
        "seed": seed,
        "accuracy": accuracy,
    }
    write_json(out, "baseline", result)
