"""The stage `patebench student`: train one student on one release and measure it on the test set.

The only file here that reads artefacts: the public pool, the released labels, and the test set, which draws the
learning curve and gives the final accuracy but steers nothing.
"""

import base64
import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, atomic, read_arrays, write_arrays, write_json
from patebench.core.formats import BELIEFS, LABELS, POOL
from patebench.core.progress import progress
from patebench.core.seeds import derive, generator
from patebench.data.stage import read_samples
from patebench.students.evidence import evidence_of
from patebench.students.lesson import Approach, Lesson, Student, Training

log = logging.getLogger("patebench")

#: So many test samples draw the learning curve; the final accuracy is of all.
_WATCHED = 1000


def study(
    *,
    pool: Path,
    labels: Path,
    test: Path,
    approach: Approach,
    queries: int,
    hold_out: float,
    seed: int,
    stream: str,
    out: Path,
    beliefs: Path | None = None,
) -> None:
    """Train a student on the first `queries` released labels and write its accuracy to `out`.

    A share `hold_out` of the answered labels is kept from it, to choose between approaches without a true label: the
    curve and the result then say how many of those labels it gives too. With `beliefs`, what the student thinks of the
    whole pool is written there: a student that asks in rounds chooses by it.
    """
    from patebench.students.training import Checkpoint, learn

    samples, released, exam = read_arrays(pool, POOL), read_arrays(labels, LABELS), read_samples(test, "test")
    whole = lesson_of(samples, released, queries)
    if not 0 <= hold_out < 1:
        raise PatebenchError(f"hold-out = {hold_out}; give a share of the labels, 0 or more and below 1")
    kept = generator(seed, stream, "hold-out").permutation(whole.answered)[: int(hold_out * len(whole.answered))]
    lesson = whole.without(kept)

    def accuracies(student: Student, watched: int | None = None) -> dict[str, float]:
        held = {"held_out_accuracy": agreement(student, whole.pool[kept], whole.labels[kept])} if len(kept) else {}
        return {**held, "accuracy": agreement(student, exam["x"][:watched], exam["y"][:watched])}

    told = {"queries": queries, "hold_out": hold_out, "seed": seed, "approach": vars(approach)}
    of = {"labels": released.digest, "pool": samples.digest, "test": exam.digest}
    with progress(f"{approach.method} student of {len(lesson.answered)} labels", None, "epochs") as done:
        training, curve = learn(
            lesson,
            approach,
            seed=derive(seed, stream),
            progress=done,
            watch=lambda student: accuracies(student, _WATCHED),
            checkpoint=Checkpoint(path=out.with_suffix(".checkpoint"), identity=_identity({**told, **of})),
        )
    reached = accuracies(training)
    log.info(
        "student: %d answered of %d queries, %.2f%% on the test set",
        len(whole.answered),
        queries,
        100 * reached["accuracy"],
    )
    result = {
        **of,
        "method": approach.method,
        "queries": queries,
        "answered": len(whole.answered),
        "held_out": len(kept),
        "model": training.model,
        "recipe": training.recipe,
        "settings": dict(training.settings),
        "epochs": len(curve),
        "seed": seed,
        **reached,
        "curve": [{name: float(f"{value:.6g}") for name, value in row.items()} for row in curve],
        "picture": _picture(training, out.with_suffix(".png")),
    }
    if beliefs:
        _write_beliefs(beliefs, training, samples, released)
    write_json(out, "student", result)


def lesson_of(samples: Artefact, released: Artefact, queries: int) -> Lesson:
    """What a student sees of a POOL and the first `queries` of its LABELS."""
    released.require("pool", samples.digest, str(samples.path))
    given = released["labels"]
    if queries > len(given):
        raise PatebenchError(f"{queries} queries are asked for, and {released.path} holds {len(given)}")
    if not (given[:queries] >= 0).any():
        raise ArtefactError(
            released.path, f"none of its first {queries} queries was answered", "use less noise or more queries"
        )
    labels = np.full(len(samples["x"]), -1, np.int64)
    labels[asked_of(released, samples)[:queries]] = given[:queries]
    evidence = None
    if "reports" in released.arrays:
        evidence = evidence_of(released["reports"][:, :queries], released.meta, len(labels))
    return Lesson(pool=samples["x"], labels=labels, classes=released.meta["classes"], evidence=evidence)


def asked_of(released: Artefact, samples: Artefact) -> NDArray[np.integer]:
    """The positions in the POOL that LABELS are of; the first ones where they do not say."""
    asked = released.arrays.get("queries", np.arange(len(released["labels"])))
    if asked.max() >= len(samples["x"]) or len(np.unique(asked)) < len(asked):
        raise ArtefactError(released.path, f"its queries are not different samples of {samples.path}")
    return asked


def agreement(student: Student, x: NDArray[Any], y: NDArray[np.integer]) -> float:
    """The share of samples `x` to which the student gives their label `y`."""
    return float(np.mean(student.log_probabilities(x).argmax(1) == y))


def _picture(training: Training, path: Path) -> str | None:
    """Save what a generator draws as a PNG and return its bytes in base64; None for students that draw nothing."""
    draw = getattr(training, "picture", None)
    pixels = draw() if draw else None
    if pixels is None:
        return None
    from PIL import Image

    with atomic(path) as temporary:
        Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(temporary, format="png")
    return base64.b64encode(path.read_bytes()).decode()


def _write_beliefs(path: Path, student: Student, samples: Artefact, released: Artefact) -> None:
    probabilities = np.exp(student.log_probabilities(samples["x"])).astype(np.float32)
    facts = {"pool": samples.digest, "labels": released.digest, "classes": released.meta["classes"]}
    write_arrays(path, BELIEFS, {"probabilities": np.minimum(probabilities, 1)}, facts)


def _identity(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
