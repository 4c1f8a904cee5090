"""Stage `train_student`: train one student on released labels, and measure its accuracy on the test set.

The student sees only the public pool and the released labels. The test set is used only for the learning curve and the
final accuracy.
"""

import hashlib
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from patebench.artefacts.reading import locate_faults, read_encoder, read_samples
from patebench.cli.command import COUNT, OutputFile, stage_command, threads
from patebench.config.parameters import StudentParameters
from patebench.core.checks import check_finite
from patebench.core.class_accuracy import class_accuracy, uncovered
from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, read_arrays, write_arrays, write_json
from patebench.core.formats import ENCODER, FEATURES, LABELS, POOL, PREDICTIONS
from patebench.core.progress import progress
from patebench.core.seeds import derive, generator
from patebench.core.text import plural
from patebench.students import needs_features, reads_table, sees_images
from patebench.students.interface import Student, StudentConfig, StudentData, StudentTrainer

if TYPE_CHECKING:
    from patebench.students.student_training import Checkpoint, Curve

log = logging.getLogger("patebench")

#: Number of test samples in the learning curve; the final accuracy uses all.
_CURVE_SAMPLES = 1000


def run(
    *,
    pool: Annotated[Path, "Public pool."],
    labels: Annotated[Path, "Released labels."],
    test: Annotated[Path, "Test set."],
    parameters: StudentParameters,
    queries: Annotated[int, "Number of queries to use, from the first on.", COUNT],
    seed: int,
    stream: str,
    out: Annotated[OutputFile, "Output file with the result."],
    predictions: Annotated[OutputFile, "Output file with the student's predictions for the whole pool."],
    encoder: Annotated[Path | None, "Encoder trained on the pool, for methods that use features."] = None,
    features: Annotated[Path | None, "Features of the pool, for decoding a released table of noisy counts."] = None,
) -> None:
    """Train a student on released labels, and measure its accuracy on the test set.

    The student is trained on the labels of the first --queries queries. With --hold-out, a fraction of the answered
    queries is held out from training. The result then contains the share of held-out queries for which the student
    predicts the released label. With this share, settings can be compared without true labels.

    A release can also be a table of noisy counts. Some methods use the whole table. Other methods train the student on
    the most likely label of each query. With --features, the most likely labels of all queries are computed jointly;
    otherwise, each query is considered separately.

    The predictions for the whole pool are written too, for selecting the queries of another round.

    If a training was interrupted, the same command continues it from the checkpoint next to OUT.
    """
    from patebench.artefacts.student_data import student_data
    from patebench.students.student_training import Checkpoint

    samples, released, test_set = read_arrays(pool, POOL), read_arrays(labels, LABELS), read_samples(test, "test")
    extracted = read_arrays(features, FEATURES) if features else None
    method, whole_table = parameters.method, reads_table(parameters.method)
    if whole_table and parameters.hold_out:
        raise PatebenchError(
            f"the method '{method}' learns from the whole table, so no label can be held out; leave out --hold-out"
        )
    if whole_table and features:
        raise PatebenchError(f"the method '{method}' computes features with --encoder; leave out --features")
    if encoder and not needs_features(method):
        raise PatebenchError(f"the method '{method}' uses no features; leave out --encoder")
    whole = student_data(samples, released, queries, extracted, whole_table=whole_table)
    whole = replace(whole, features=read_encoder(encoder, samples).features if encoder else None)
    if sees_images(method) and "images" in samples.arrays:
        whole = _use_images(whole, samples)
        samples, test_set = (replace(part, arrays={**part.arrays, "x": part["images"]}) for part in (samples, test_set))
    share = parameters.hold_out or 0.0
    held = generator(seed, stream, "hold-out").permutation(whole.labelled)[: int(share * len(whole.labelled))]
    if missing := uncovered(whole.labels, samples.meta["class_names"]):
        log.warning(
            "no released label is of class %s, so the student cannot learn it; use more queries", ", ".join(missing)
        )

    facts = {"queries": queries, "hold_out": share, "seed": seed, "config": parameters.model_dump()}
    of = {"labels": released.digest, "pool": samples.digest, "test": test_set.digest}
    of |= {"encoder": read_arrays(encoder, ENCODER).digest} if encoder else {}
    of |= {"features": extracted.digest} if extracted else {}
    identity = hashlib.sha256(json.dumps({**facts, **of}, sort_keys=True).encode()).hexdigest()
    checkpoint = Checkpoint(path=out.with_suffix(".checkpoint"), identity=identity)
    trainer, curve, reached = _train(whole, held, parameters, derive(seed, stream), samples, test_set, checkpoint)
    answered = len(whole.labelled)
    log.info(
        "student trained on %d answered of %d queries: accuracy %.2f%% on the test set",
        answered, queries, 100 * reached["accuracy"],
    )  # fmt: skip
    result = {
        **of,
        "method": method,
        "queries": queries,
        "answered": answered,
        "held_out": len(held),
        "model": trainer.model,
        "recipe": trainer.recipe,
        "settings": dict(trainer.settings),
        "config": parameters.model_dump(),
        "epochs_done": len(curve),
        "seed": seed,
        **reached,
        "curve": [{name: float(f"{value:.6g}") for name, value in row.items()} for row in curve],
    }
    with locate_faults(samples):
        predicted = _log_probabilities(trainer, samples["x"])
    probabilities = np.minimum(np.exp(predicted).astype(np.float32), 1)
    pool_facts = {"pool": samples.digest, "labels": released.digest, "classes": released.meta["classes"]}
    write_arrays(predictions, PREDICTIONS, {"probabilities": probabilities}, pool_facts)
    write_json(out, "train_student", result)


def _use_images(data: StudentData, samples: Artefact) -> StudentData:
    """Return a copy of `data` with images as pool, for methods that learn from images.

    The pool of `data` consists of features of images, and `samples` contains these images too. The copy's function
    `features` can be called only with the whole pool of images. It returns the result of `data.features` for the pool
    of `data`. Any other call raises PatebenchError. If `data.features` is None, every call does.
    """
    vectors = data.features(samples["x"]) if data.features else None

    def features(x: NDArray[Any]) -> NDArray[np.floating]:
        if vectors is None or x is not samples["images"]:
            raise PatebenchError("features are available only for the images of the pool; pass the pool to `features`")
        return vectors

    return replace(data, pool=samples["images"], features=features)


def student_of_labels(
    method: str, public: Artefact, labels: NDArray[np.int64], test_set: Artefact, seed: int
) -> dict[str, Any]:
    """Train a student by `method` on the pool `public`; return its model, learning curve and accuracies as a dict.

    `labels` (queries,) are labels of the first samples of the pool; −1 means no label. Accuracies are measured on
    `test_set`.
    """
    padded = np.full(len(public["x"]), -1, np.int64)
    padded[: len(labels)] = labels
    data = StudentData(pool=public["x"], labels=padded, classes=int(public.meta["classes"]))
    held_out = np.array([], np.intp)
    trainer, curve, reached = _train(data, held_out, StudentConfig(method=method), seed, public, test_set)
    model = method if trainer.model == method else f"{method}, {trainer.model}"
    return {"model": model, "model_parameters": None, "curve": curve, **reached}


def _train(
    data: StudentData,
    held_out: NDArray[np.integer],
    config: StudentConfig,
    seed: int,
    pool: Artefact,
    test_set: Artefact,
    checkpoint: "Checkpoint | None" = None,
) -> "tuple[StudentTrainer, Curve, dict[str, Any]]":
    """Train a student on `data` without the labels of the pool samples at the indices `held_out`.

    Return the trained student, the learning curve, and a dict of accuracies on `test_set`. If `held_out` is not empty,
    the dict also contains `held_out_accuracy`: the share of the held-out labels that the student predicts. An error
    about a sample names the file of `pool` or of `test_set`.
    """
    from patebench.students.student_training import train

    data, x, labels = data.without(held_out), data.pool[held_out], data.labels[held_out]

    def measure(student: Student, limit: int | None = None) -> dict[str, Any]:
        reached = {}
        if len(labels):
            reached["held_out_accuracy"] = float(np.mean(_log_probabilities(student, x).argmax(1) == labels))
        with locate_faults(test_set):
            predicted = _log_probabilities(student, test_set["x"][:limit]).argmax(1)
        return reached | class_accuracy(test_set["y"][:limit], predicted, test_set.meta["class_names"])

    def evaluate(student: Student) -> dict[str, float]:
        reached = measure(student, _CURVE_SAMPLES)
        return {name: reached[name] for name in ("held_out_accuracy", "accuracy") if name in reached}

    named = f"{config.method} student of {plural(len(data.labelled), 'label')}"
    with progress(named, None, "epochs") as done, locate_faults(pool):
        trainer, curve = train(data, config, seed=seed, progress=done, evaluate=evaluate, checkpoint=checkpoint)
    return trainer, curve, measure(trainer)


def _log_probabilities(student: Student, x: NDArray[Any]) -> NDArray[np.floating]:
    """Return the log-probabilities (samples, classes) that `student` predicts for `x`; raise NotFiniteError for NaN."""
    predicted = student.log_probabilities(x)
    check_finite("the predictions of the student are NaN", predicted, x, infinite=True)
    return predicted


command = stage_command(run, threads)
