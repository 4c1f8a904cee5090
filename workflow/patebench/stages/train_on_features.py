"""Stage `train_on_features`: train a classifier of public features on private records, with noise.

An encoder trained only on the public pool computes the features. The features of a private record do not depend on
other private records. All further steps on private records are in `baselines/on_features`.
"""

import logging
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from patebench.artefacts.reading import (
    check_pool_protection,
    check_together,
    locate_faults,
    model_inputs,
    private_features,
    read_encoder,
    read_samples,
    records_outside,
)
from patebench.baselines.on_features import FEATURE_METHODS, protects_only_labels
from patebench.cli.command import OutputFile, stage_command, threads
from patebench.config.parameters import FeatureMethodParameters
from patebench.core.bound import large_delta
from patebench.core.checks import check_finite
from patebench.core.class_accuracy import class_accuracy
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, read_arrays, write_json
from patebench.core.formats import POOL, TRUTH
from patebench.core.seeds import derive, generator
from patebench.data.division import order_by_content, shift_images

log = logging.getLogger("patebench")

#: Statement in the result.
_SEEDED = (
    "The noise of this classifier comes from a named seed. Anyone who knows the seed can remove the noise, so the"
    " classifier is not a release. Its ε is for fresh noise."
)


def run(
    *,
    private: Annotated[Path, "All private samples."],
    pool: Annotated[Path, "Public pool."],
    truth: Annotated[Path, "True labels of the pool, used only to measure accuracy."],
    test: Annotated[Path, "Test set."],
    encoder: Annotated[Path, "Encoder learned from the pool."],
    parameters: FeatureMethodParameters,
    seed: int,
    stream: str,
    out: Annotated[OutputFile, "Output file with the result."],
) -> None:
    """Train a differentially private classifier on features of a public encoder.

    Methods use the private records in one of four ways: as noisy sums, as noisy counts (of votes or in histograms), as
    randomised labels, or to choose public samples by the exponential mechanism. Private samples that equal a pool or
    test sample byte for byte are left out. With --student, a student is trained on the classifier's labels of the pool.

    Some methods protect only labels. They need a pool that the stage split made with --protects labels. The samples of
    this pool are public, and --private contains their private labels.
    """
    from patebench.baselines.on_features.feature_method import FeatureMethod, PrivateRecords

    started = time.monotonic()
    labels_only = protects_only_labels(parameters.method)
    samples, public, true, test_set = read_inputs(private, pool, truth, test, parameters.delta, labels_only=labels_only)
    method: FeatureMethod = FEATURE_METHODS.load(parameters.method).calibrated(
        parameters.epsilon, parameters.delta, parameters.change, **parameters.settings
    )
    bound = method.bound(parameters.delta)
    x, y = _private_labels(samples, public) if labels_only else records_outside(samples, public, test_set)
    learnt = read_encoder(encoder, public)
    records, features = PrivateRecords(private_features(learnt, x), y), learnt.features(public["x"])
    with locate_faults(public):
        check_finite("the features of the pool are not finite", features, public["x"])
    fitted = method.fit(records, features, int(public.meta["classes"]), generator(seed, stream))
    scores = fitted.scores(learnt.features(test_set["x"]))
    with locate_faults(test_set):
        check_finite("the classifier's scores are NaN", scores, test_set["x"], infinite=True)
    accuracies = class_accuracy(test_set["y"], scores.argmax(axis=1), test_set.meta["class_names"])
    reached = {"model": fitted.model, "model_parameters": fitted.size, **accuracies}
    known = fitted.scores(features).argmax(axis=1) if fitted.labels is None else fitted.labels
    if parameters.student:
        from patebench.stages.train_student import student_of_labels

        classifier = {"classifier": reached["model"], "classifier_accuracy": reached["accuracy"]}
        student = student_of_labels(parameters.student, public, known, test_set, derive(seed, stream, "student"))
        reached = {**classifier, **student}
    system, form = (FEATURE_METHODS.fact(parameters.method, what) for what in ("system", "form"))
    log.info(
        "%s, %s: accuracy %.2f%% on the test set at ε = %.4g", system, form, 100 * reached["accuracy"], bound.epsilon
    )
    result = {
        **model_inputs(samples, public, test_set, encoder, seed),
        "system": system,
        "form": form,
        "private_model": parameters.slug,
        "parameters": {**parameters.model_dump(), "noise": method.noise},
        **label_accuracy(known, true, public),
        "public_use": "features, student" if parameters.student else "features",
        "public_samples": len(public["x"]),
        **reached,
        "seconds": round(time.monotonic() - started, 1),
        "statement": _SEEDED,
        "bounds": [bound.to_json()],
    }
    write_json(out, "train_on_features", result)


def read_inputs(
    private: Path, pool: Path, truth: Path, test: Path, delta: float, *, labels_only: bool = False
) -> tuple[Artefact, Artefact, Artefact, Artefact]:
    """Read four files: return the private samples, the pool, the true labels of the pool, and the test set.

    `labels_only` is True for methods that protect only labels. Their pool must consist of public samples whose labels
    are private. A warning is logged if `delta` is large for the number of private records. Raise ArtefactError if the
    files do not belong together.
    """
    samples, public = read_samples(private, "private"), read_arrays(pool, POOL)
    test_set, true = read_samples(test, "test"), read_arrays(truth, TRUTH)
    check_pool_protection(public, labels_only=labels_only)
    check_together(pool=public, truth=true)
    if fault := large_delta(delta, None, len((public if labels_only else samples)["x"])):
        log.warning(fault)
    return samples, public, true, test_set


def label_accuracy(labels: NDArray[np.integer], true: Artefact, pool: Artefact) -> dict[str, Any]:
    """Return a dict with the number of labels (`answered`) and their accuracies (keys that start with `label_`).

    `labels` (samples,) are labels of the first samples of `pool`; −1 means no label. `true` contains the true labels.
    """
    answered = labels >= 0
    right = class_accuracy(true["y"][: len(labels)][answered], labels[answered], pool.meta["class_names"], "label_{}")
    return {"answered": int(answered.sum()), **right}


def _private_labels(samples: Artefact, pool: Artefact) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the samples `x` of the pool and their private labels `y`.

    `samples` is the file from which the pool was drawn; only its labels are private. If the pool's images were shifted,
    `x` contains the images before the shift. Raise ArtefactError if the pool was not drawn from `samples`.
    """
    order, positions = order_by_content(samples.arrays), pool["row"]
    rows = order[positions[positions < len(order)]]
    own = samples["x"][rows]
    if not np.array_equal(shift_images(own, pool.meta["split"]["pool_shift"]), pool["x"]):
        raise ArtefactError(
            pool.path,
            f"its samples were not drawn from {samples.path}",
            "give the pool that was made from these samples",
            code="mismatch",
        )
    return own, samples["y"][rows]


command = stage_command(run, threads)
