"""Stage `train_petdl`: train and audit a student of PET-DL (Sun et al. 2019), as published or in a sound form.

A student learns from the teachers' probabilities and hints (outputs of a hidden layer). The stage reads them from the
chunks of the ensemble, the files that `train_teachers` wrote.
"""

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from patebench.artefacts.reading import check_pool_protection, check_together, locate_faults, read_samples
from patebench.artefacts.records import ensemble_slug, select_entries
from patebench.cli.command import OutputFile, stage_command, threads
from patebench.config.parameters import PetdlParameters
from patebench.core.checks import check_finite
from patebench.core.class_accuracy import class_accuracy
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, read_json, write_json
from patebench.core.formats import CHUNK, POOL, VOTES
from patebench.core.progress import progress
from patebench.core.seeds import Mode, derive
from patebench.core.spelling import slug
from patebench.core.text import plural
from patebench.models import make_learner
from patebench.petdl import FORMS
from patebench.release.conditions import check_size_of_delta

if TYPE_CHECKING:
    from patebench.petdl.form import Form
    from patebench.petdl.student import Knowledge

log = logging.getLogger("patebench")


def run(
    *,
    ensemble: Annotated[Path, "Summary of the ensemble, from the stage join_votes."],
    votes: Annotated[Path, "Votes of the ensemble; their file lists the chunks."],
    chunk: Annotated[Sequence[Path], "Outputs of a chunk of teachers; repeat for each chunk."],
    pool: Annotated[Path, "Public pool."],
    test: Annotated[Path, "Test set."],
    parameters: PetdlParameters,
    seed: int,
    stream: str,
    out: Annotated[OutputFile, "Output file with the result."],
) -> None:
    """Train a student of PET-DL, and audit the training.

    The student learns from the teachers' class probabilities and hints (outputs of a hidden layer) on the pool. Each
    --chunk contains these outputs for some teachers. The chunks must be exactly those from which the votes were joined.
    """
    import torch

    from patebench.models import architectures
    from patebench.models.device import device
    from patebench.models.network import Network, device_facts
    from patebench.petdl.student import PetdlStudent
    from patebench.stages.petdl_audit import audit

    summary, source = read_json(ensemble, "join_votes"), read_arrays(votes, VOTES)
    public, test_set = read_arrays(pool, POOL), read_samples(test, "test")
    if summary.get("votes") != source.digest:
        raise ArtefactError(
            ensemble,
            f"it summarises other votes than {votes}",
            "give the summary that was written together with these votes (ensemble.json)",
            code="mismatch",
        )
    check_together(pool=public, test=test_set, votes=source)
    check_pool_protection(public)
    check_size_of_delta(Mode.SEEDED, len(source["votes"]), parameters.delta, votes=source)
    known, layer = _read_knowledge(chunk, source)
    form: Form = FORMS.load(parameters.form)
    settings = form.settled(parameters.model_dump(), len(public["x"]), known.hints is not None)
    assert settings.samples is not None
    known, classes = known.first(settings.samples).to(device()), int(source.meta["classes"])
    samples, test_x = torch.from_numpy(public["x"])[: settings.samples], torch.from_numpy(test_set["x"])
    shape = tuple(samples.shape[1:])
    teacher = make_learner(summary["model"], summary["recipe"], classes=classes)
    if not isinstance(teacher, Network):
        raise PatebenchError(
            f"PET-DL needs networks as teachers, but these are '{summary['model']}'; set 'model: conv-small' for the"
            " ensemble in the configuration"
        )
    size = sum(layer.numel() for layer in teacher.build(shape, classes).parameters())
    width = architectures.width_of(size / (parameters.compression or 1), shape, classes)
    guided = parameters.guided or ("block2" if known.hints is None else layer)
    make = partial(PetdlStudent, classes=classes, width=width, guided=guided, features=known.features)
    student = make(samples, seed=derive(seed, stream, "weights"))
    bound = form.bound(settings, parameters.delta)
    log.info(
        "PET-DL, %s: noise %.4g, ε = %.4g; the student has %d parameters",
        parameters.form, settings.noise, bound.epsilon, student.parameters,
    )  # fmt: skip
    curve: list[dict[str, float]] = []

    def reached() -> dict[str, Any]:
        return class_accuracy(test_set["y"], student.predict(test_x).numpy(), test_set.meta["class_names"])

    started = time.perf_counter()
    with progress(f"PET-DL, {parameters.form}", settings.distillation_epochs, "epochs") as done:

        def after(epoch: int) -> None:
            done(epoch)
            if epoch % math.ceil(settings.distillation_epochs / 20) == 0 or epoch == settings.distillation_epochs:
                curve.append({"epoch": epoch, "accuracy": reached()["accuracy"]})

        own, noises = derive(seed, stream), derive(seed, stream, parameters.slug)
        form.learn(student, student.samples(samples), known, settings, own, after, noises=noises)
    seconds = time.perf_counter() - started
    with locate_faults(public):
        weights = [layer.float().cpu().numpy().ravel() for layer in student.state()]
        check_finite("the weights of the student are not finite", np.concatenate(weights), public["x"])
    audited = audit(form, settings, parameters.delta, known, samples, make)
    log.info(
        "accuracy %.2f%% on the test set; verdict of the audit: %s", 100 * curve[-1]["accuracy"], audited["verdict"]
    )
    names = ("dataset", "split", "seed", "teachers", "partition", "teacher_accuracies")
    facts, trained = select_entries(ensemble, summary, names), ensemble_slug(ensemble, summary)
    teacher_accuracy = float(np.mean(facts.pop("teacher_accuracies")))
    others = {name: getattr(parameters, name) for name in ("epsilon", "delta", "compression", "guided")}
    result = {
        "votes": source.digest,
        "pool": public.digest,
        "test": test_set.digest,
        **facts,
        "ensemble": trained,
        "teacher_accuracy": teacher_accuracy,
        "system": "PET-DL",
        "public_use": "student",
        "public_samples": settings.samples,
        "form": parameters.form,
        "private_model": slug(trained, parameters.slug),
        "parameters": {**asdict(settings), **others, "hint_layer": layer},
        "model": f"conv, width {width}",
        "model_parameters": student.parameters,
        **device_facts(student.device, student.compute_dtype),
        **reached(),
        "curve": curve,
        "seconds": seconds,
        "bounds": [bound.to_json()],
        **audited,
    }
    write_json(out, "train_petdl", result)


def _read_knowledge(paths: Sequence[Path], votes: Artefact) -> "tuple[Knowledge, str]":
    """Return all teachers' outputs on the pool from the chunk files `paths`, and the name of these outputs.

    The name is that of a hidden layer if the files contain its outputs (hints), and otherwise "probabilities". Raise
    PatebenchError if `paths` are not exactly the chunks from which `votes` were joined, or if they lack probabilities.
    """
    import torch

    from patebench.petdl.student import Knowledge

    chunks = [read_arrays(path, CHUNK) for path in paths]
    if sorted(chunk.digest for chunk in chunks) != sorted(votes.meta["chunks"]):
        number = len(votes.meta["chunks"])
        given = "other files" if len(chunks) == number else plural(len(chunks), "file")
        raise PatebenchError(
            f"{votes.path} was joined from {plural(number, 'file')} of votes, but --chunk gives {given}; repeat --chunk"
            " for each file that was joined, and for no other file"
        )
    for chunk in chunks:
        chunk.require("hints", chunks[0].meta.get("hints"), str(chunks[0].path))
        if "probabilities" not in chunk.arrays:
            raise ArtefactError(
                chunk.path,
                "it lacks the teachers' probabilities, which only an ensemble with the key 'hints' stores",
                "set 'hints: block2' for the ensemble in the configuration (or 'hints: probabilities' if the model has "
                "no layer 'block2'), and train it again",
            )
    order = np.argsort(np.concatenate([chunk["teachers"] for chunk in chunks]))
    outputs = {
        name: torch.from_numpy(np.concatenate([chunk[name] for chunk in chunks])[order])
        for name in ("probabilities", "hints")
        if name in chunks[0].arrays
    }
    return Knowledge(outputs["probabilities"], outputs.get("hints")), str(chunks[0].meta["hints"])


command = stage_command(run, threads)
