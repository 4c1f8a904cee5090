"""Train one student on one release and measure it on the test set."""

import logging
from pathlib import Path

import numpy as np

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, write_json
from patebench.core.formats import LABELS, POOL
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.data.stage import read_samples
from patebench.models.learner import epochs_of, make
from patebench.students import STUDENTS

log = logging.getLogger("patebench")


def study(
    *,
    pool: Path,
    labels: Path,
    test: Path,
    method: str,
    queries: int,
    model: str,
    recipe: str,
    epochs: int | None,
    seed: int,
    stream: str,
    out: Path,
) -> None:
    """Train a student by `method` on the first `queries` released labels and write its accuracy to `out`."""
    samples, released, held_out = read_arrays(pool, POOL), read_arrays(labels, LABELS), read_samples(test, "test")
    released.require("pool", samples.digest, str(pool))
    if queries > len(released["labels"]):
        raise PatebenchError(f"{queries} queries are asked for, and {labels} holds {len(released['labels'])}")
    given = released["labels"][:queries]
    answered = int(np.sum(given >= 0))
    if answered == 0:
        raise ArtefactError(
            labels, f"none of its first {queries} queries was answered", "use less noise or more queries"
        )
    with progress(f"student of {answered} labels", epochs_of(recipe, epochs), "epochs") as done:
        student = STUDENTS.load(method)(
            lambda: make(model, recipe, classes=released.meta["classes"], epochs=epochs),
            samples["x"],
            given,
            seed=derive(seed, stream),
            progress=lambda epoch, _: done(epoch),
        )
    accuracy = float(np.mean(student.predict(held_out["x"]) == held_out["y"]))
    log.info("student: %d answered of %d queries, %.2f%% on the test set", answered, queries, 100 * accuracy)
    result = {
        "labels": released.digest,
        "pool": samples.digest,
        "test": held_out.digest,
        "method": method,
        "queries": queries,
        "answered": answered,
        "model": model,
        "recipe": recipe,
        "epochs": epochs_of(recipe, epochs),
        "seed": seed,
        "accuracy": accuracy,
    }
    write_json(out, "student", result)
