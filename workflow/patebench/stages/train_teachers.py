"""The stage `train_teachers`: the teachers of one chunk are trained and vote."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, read_arrays, write_arrays
from patebench.core.formats import CHUNK, POOL
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.plan.parameters import TrainingParameters
from patebench.stages.command import TeacherRange, file_option, parameter_options, seeded, stage_command, threads
from patebench.stages.reading import read_partition, read_samples

log = logging.getLogger("patebench")


def run(
    *,
    private: Path,
    partition: Path,
    pool: Path,
    test: Path,
    teachers: tuple[int, int],
    training: TrainingParameters,
    seed: int,
    stream: str,
    out: Path,
    weights: Path | None = None,
    soft: Sequence[float] = (),
    hints: str | None = None,
) -> None:
    """Train a chunk of teachers and write their votes on pool and test set.

    Each teacher's randomness is named by its own number, so the votes do not depend on the size of the chunks. With
    --weights, a folder, every teacher's weights are kept there; with --soft, temperatures, the teachers' probabilities
    of the pool are summed for distillation; with --hints, what each teacher says of the pool is kept for PET-DL.
    """
    from patebench.models.learner import epochs_of, make_learner
    from patebench.teachers.knowledge import Knowledge
    from patebench.teachers.soft import SoftVotes
    from patebench.teachers.training import train

    samples, queries, test_set = read_samples(private, "private"), read_arrays(pool, POOL), read_samples(test, "test")
    shards = read_partition(partition, samples)
    queries.require("public", shards.meta["public"], str(partition))  # else a shard might hold a query
    first, last = teachers
    if not 0 <= first <= last < shards.meta["teachers"]:
        raise PatebenchError(f"teachers {first}:{last} are not among the {shards.meta['teachers']} of {partition}")
    numbers = np.arange(first, last + 1)
    classes = samples.meta["classes"]
    smallest = np.min_scalar_type(classes - 1)  # that holds every label
    votes = np.empty((len(numbers), len(queries["x"])), smallest)
    test_votes = np.empty((len(numbers), len(test_set["x"])), smallest)
    together, knowledge = SoftVotes(soft, len(queries["x"]), classes), Knowledge(hints)
    learner = partial(make_learner, training.model, training.recipe, classes=classes, epochs=training.epochs)
    owned = [shard(samples, shards, int(number)) for number in numbers]
    seeds = [derive(seed, stream, "teacher", int(number)) for number in numbers]
    with progress(f"teachers {first} to {last}", len(numbers), "teachers") as done:
        for positions, trained in train(learner, owned, seeds, done):
            votes[positions], test_votes[positions] = trained.predict(queries["x"]), trained.predict(test_set["x"])
            together.add(trained, queries["x"])
            knowledge.add(positions, trained, queries["x"])
            for place, position in enumerate(positions):
                accuracy = 100 * float(np.mean(test_votes[position] == test_set["y"]))
                size = len(owned[position][1])
                log.info("teacher %d: %d samples, %.2f%% on the test set", numbers[position], size, accuracy)
                if weights is not None:
                    trained.save(place, weights / f"{numbers[position]}.pt")
    meta = {
        **trained.device_facts,
        "partition": shards.digest,
        "records": shards.meta.get("records"),
        "pool": queries.digest,
        "test": test_set.digest,
        "classes": classes,
        "model": training.model,
        "recipe": training.recipe,
        "epochs": epochs_of(training.recipe, training.epochs),
        "training": training.model_dump(),
        "seed": seed,
        "temperatures": list(soft),
        "hints": hints,
    }
    arrays = {"teachers": numbers, "votes": votes, "test_votes": test_votes}
    arrays |= {**together.arrays(), **knowledge.arrays()}
    write_arrays(out, CHUNK, arrays, meta)


def shard(samples: Artefact, partition: Artefact, teacher: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The private samples and labels that `teacher` owns."""
    start, stop = partition["offsets"][teacher : teacher + 2]
    rows = partition["indices"][start:stop]
    return samples["x"][rows], samples["y"][rows]


command = stage_command(
    run,
    file_option("private", "Private samples."),
    file_option("partition", "Who owns which."),
    file_option("pool", "The public pool."),
    file_option("test", "The test set."),
    click.option("--teachers", type=TeacherRange(), required=True, help="Which teachers, e.g. 0-24."),
    parameter_options(TrainingParameters, "training"),
    click.option(
        "--soft",
        type=click.FloatRange(min=0, min_open=True),
        multiple=True,
        help="Also sum the teachers' probabilities of the pool at this temperature, for distillation.",
    ),
    click.option(
        "--hints", default=None, help="Also keep each teacher's probabilities of the pool, and the hints of this layer."
    ),
    file_option("weights", "Keep each teacher's weights in this folder.", needed=False),
    threads,
    seeded,
    file_option("out", "Where the votes go."),
)
