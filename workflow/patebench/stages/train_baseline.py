"""Stage `train_baseline`: train a model without privacy, on all private data or on true labels of the pool.

In tables, the accuracy of the model trained on all private data is an upper limit for students.
"""

import logging
from pathlib import Path
from typing import Annotated

from patebench.artefacts.reading import check_learner, check_together, read_samples, records_outside
from patebench.cli.command import COUNT, OutputFile, stage_command, threads
from patebench.config.parameters import TrainingParameters
from patebench.core.class_accuracy import class_accuracy
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, write_json
from patebench.core.formats import POOL, TRUTH
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.models import epochs_of, make_learner

log = logging.getLogger("patebench")


def run(
    *,
    private: Annotated[Path | None, "All private samples; alternatively, give --pool, --truth and --true-labels."],
    pool: Annotated[Path | None, "Public pool."],
    truth: Annotated[Path | None, "True labels of the pool."],
    true_labels: Annotated[int | None, "Number of true labels.", COUNT],
    test: Annotated[Path, "Test set."],
    training: TrainingParameters,
    seed: int,
    stream: str,
    out: Annotated[OutputFile, "Output file with the result."],
) -> None:
    """Train a model without privacy: on all private data, or on true labels of the pool.

    Private samples that equal a test sample byte for byte are left out. With --true-labels, the model is trained on the
    first samples of the pool, like a student whose labels are all correct. Table 1 of Sun et al. 2020 calls this
    "ground truth".
    """
    test_set = read_samples(test, "test")
    if private and not (pool or truth or true_labels):
        name, source = "all private data", read_samples(private, "private")
        digests = {"private": source.digest}
        x, y = records_outside(source, test_set)
    elif pool and truth and true_labels and not private:
        name, source, answers = f"{true_labels} true labels", read_arrays(pool, POOL), read_arrays(truth, TRUTH)
        digests = {"pool": source.digest, "truth": answers.digest}
        check_together(pool=source, truth=answers)
        if true_labels > len(source["x"]):
            most = len(source["x"])
            line = f"--true-labels is {true_labels}, but {pool} has {most} samples; use at most {most}"
            raise PatebenchError(line)
        x, y = source["x"][:true_labels], answers["y"][:true_labels]
    else:
        options = {"--private": private, "--pool": pool, "--truth": truth, "--true-labels": true_labels}
        given = ", ".join(option for option, value in options.items() if value) or "no option"
        raise PatebenchError(
            f"the training data are given by {given}; give either --private alone, or --pool, --truth and --true-labels"
            " together"
        )
    model, epochs = training.model, epochs_of(training.recipe, training.epochs)
    learner = make_learner(model, training.recipe, classes=source.meta["classes"], epochs=training.epochs)
    with progress(f"{model} of {name}", epochs, "epochs") as done:
        learner.fit(x, y, seed=derive(seed, stream), progress=lambda epoch, _: done(epoch))
    for samples in (source, test_set):
        check_learner(f"baseline {model}", learner, samples)
    reached = class_accuracy(test_set["y"], learner.predict(test_set["x"]), test_set.meta["class_names"])
    log.info("%s trained on %s: accuracy %.2f%% on the test set", model, name, 100 * reached["accuracy"])
    result = {
        **digests,
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


command = stage_command(run, threads)
