"""The stage `train_baseline`: what could be learnt without privacy.

From all private data, the ceiling that tables show; or from true labels of the pool.
"""

import logging
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from patebench.artefacts.reading import check_learner, check_together, read_samples
from patebench.cli.command import stage_command, threads
from patebench.config.parameters import TrainingParameters
from patebench.core.class_accuracy import class_accuracy
from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, read_arrays, write_json
from patebench.core.formats import POOL, TRUTH
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.data.division import content

log = logging.getLogger("patebench")


class _Samples(NamedTuple):
    """What is learnt from: samples (n, …), labels (n,), and the digests of the files they came from."""

    name: str
    x: NDArray[Any]
    y: NDArray[Any]
    classes: int
    of: dict[str, str]
    source: Artefact


def run(
    *,
    private: Annotated[Path | None, "All private samples; or else --pool, --truth and --true-labels."],
    pool: Annotated[Path | None, "The public pool."],
    truth: Annotated[Path | None, "True labels of the pool."],
    true_labels: int | None,
    test: Annotated[Path, "The test set."],
    training: TrainingParameters,
    seed: int,
    stream: str,
    out: Annotated[Path, "Where the result goes."],
) -> None:
    """Train a model without privacy: on all private data, or on true labels of the pool.

    Private samples that equal a test sample byte for byte are left out, as no teacher has them.
    True labels are those of the pool's first samples: what a student could learn from labels without a fault (the
    "ground truth" of NZC's Table 1).
    """
    from patebench.models.learner import epochs_of, make_learner

    test_set = read_samples(test, "test")
    samples = _samples(private, pool, truth, true_labels, test_set)
    model, epochs = training.model, epochs_of(training.recipe, training.epochs)
    learner = make_learner(model, training.recipe, classes=samples.classes, epochs=training.epochs)
    with progress(f"{model} of {samples.name}", epochs, "epochs") as done:
        learner.fit(samples.x, samples.y, seed=derive(seed, stream), progress=lambda epoch, _: done(epoch))
    for source in (samples.source, test_set):
        check_learner(f"baseline {model}", learner, source)
    reached = class_accuracy(test_set["y"], learner.predict(test_set["x"]), test_set.meta["class_names"])
    log.info("%s of %s: %.2f%% on the test set", model, samples.name, 100 * reached["accuracy"])
    result = {
        **samples.of,
        "test": test_set.digest,
        "dataset": test_set.meta["dataset"],
        "split": test_set.meta["split"],
        "model": model,
        "recipe": training.recipe,
        "epochs": epochs,
        "training": training.model_dump(),
        "seed": seed,
        "true_labels": true_labels,
        **reached,
    }
    write_json(out, "train_baseline", result)


def _samples(
    private: Path | None, pool: Path | None, truth: Path | None, true_labels: int | None, test: Artefact
) -> _Samples:
    if private and not (pool or truth or true_labels):
        found = read_samples(private, "private")
        unseen = ~np.isin(content(found["x"]), content(test["x"]))
        of = {"private": found.digest}
        return _Samples("all private data", found["x"][unseen], found["y"][unseen], found.meta["classes"], of, found)
    if private or not (pool and truth and true_labels):
        raise PatebenchError("give either the private samples, or the pool, its truth and a number of true labels")
    queries, answers = read_arrays(pool, POOL), read_arrays(truth, TRUTH)
    check_together(pool=queries, truth=answers)
    if true_labels > len(queries["x"]):
        raise PatebenchError(f"{true_labels} true labels are asked for, and {pool} holds {len(queries['x'])}")
    of = {"pool": queries.digest, "truth": answers.digest}
    x, y = queries["x"][:true_labels], answers["y"][:true_labels]
    return _Samples(f"{true_labels} true labels", x, y, queries.meta["classes"], of, queries)


command = stage_command(
    run,
    click.option("--true-labels", type=click.IntRange(1), default=None, help="How many of those to learn from."),
    threads,
)
