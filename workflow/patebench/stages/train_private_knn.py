"""Stage `train_private_knn`: train a student on labels from the nearest private records (Zhu et al. 2020).

Records are compared by features of an encoder trained only on the public pool. Each record is encoded alone, so its
features do not depend on other private records. All other steps on private records are in `baselines/knn_labels`.
"""

import logging
import time
from pathlib import Path
from typing import Annotated

from patebench.artefacts.reading import model_inputs, private_features, read_encoder, records_outside
from patebench.baselines import knn_accounting
from patebench.cli.command import OutputFile, stage_command, threads
from patebench.config.parameters import PrivateKnnParameters
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import write_json
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.core.text import plural
from patebench.stages.train_on_features import label_accuracy, read_inputs

log = logging.getLogger("patebench")

#: Statement in the result.
_SEEDED = (
    "The noise of these labels comes from a named seed. Anyone who knows the seed can remove the noise, so the labels "
    "are not a release. Their ε is for fresh noise."
)


def run(
    *,
    private: Annotated[Path, "All private samples."],
    pool: Annotated[Path, "Public pool, whose first samples are the queries."],
    truth: Annotated[Path, "True labels of the pool, used only to measure accuracy."],
    test: Annotated[Path, "Test set."],
    encoder: Annotated[Path, "Encoder learned from the pool."],
    parameters: PrivateKnnParameters,
    seed: int,
    stream: str,
    out: Annotated[OutputFile, "Output file with the result."],
) -> None:
    """Label the first samples of the pool by their nearest private records, and train a student on these labels.

    Private samples that equal a pool or test sample byte for byte are left out.
    """
    import torch

    from patebench.baselines.knn_labels import NearestVotes, published_labels, sound_labels
    from patebench.baselines.noisy_steps import PoissonSampler
    from patebench.stages.train_student import student_of_labels

    started = time.monotonic()
    samples, public, true, test_set = read_inputs(private, pool, truth, test, parameters.delta)
    if parameters.queries > len(public["x"]):
        line = f"--queries is {parameters.queries}, but {pool} has {plural(len(public['x']), 'sample')}; use fewer"
        raise PatebenchError(line, code="bound")
    learnt, classes = read_encoder(encoder, public), int(public.meta["classes"])
    x, y = records_outside(samples, public, test_set)
    records, queries = private_features(learnt, x), learnt.features_alone(public["x"][: parameters.queries])
    votes = NearestVotes(records, y, queries, neighbours=parameters.neighbours, classes=classes)
    settings, delta = parameters.settings, parameters.delta

    def random(what: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive(seed, stream, what))

    with progress(f"Private-kNN, {parameters.form}", None, "steps") as done:
        if parameters.form == "published":
            labels = published_labels(votes, settings, random("noise"), done)
            bound = knn_accounting.claimed(settings, int((labels >= 0).sum()), delta)
        else:
            sampler = PoissonSampler(settings.rate, random("sampling"))
            labels, spent = sound_labels(votes, settings, sampler, random("noise"), done)
            bound = knn_accounting.sound(settings, delta, spent)
    right = label_accuracy(labels, true, public)
    if not right["answered"]:
        fault = "it was not written: no query had enough votes for an answer, so no student can be trained"
        raise ArtefactError(out, fault, "use a lower --threshold", code="no-answer")
    log.info(
        "%d of %d queries answered; %.2f%% of the answers are right",
        right["answered"], len(labels), 100 * right["label_accuracy"],
    )  # fmt: skip
    student = student_of_labels(parameters.student, public, labels, test_set, derive(seed, stream))
    log.info("Private-kNN: accuracy %.2f%% on the test set at ε = %.4g", 100 * student["accuracy"], bound.epsilon)
    result = {
        **model_inputs(samples, public, test_set, encoder, seed),
        "system": "Private-kNN",
        "form": parameters.form,
        "private_model": parameters.slug,
        "parameters": parameters.model_dump(),
        **right,
        "public_use": "features, queries, student",
        "public_samples": len(public["x"]),
        **student,
        "seconds": round(time.monotonic() - started, 1),
        "statement": _SEEDED,
        "bounds": [bound.to_json()],
    }
    write_json(out, "train_private_knn", result)


command = stage_command(run, threads)
