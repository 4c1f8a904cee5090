"""Train the teachers of one chunk and write down how they vote."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, read_arrays, write_arrays
from patebench.core.formats import CHUNK, POOL
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.data.stage import read_partition, read_samples
from patebench.models.learner import epochs_of, make
from patebench.teachers.soft import SoftVotes
from patebench.teachers.training import train

log = logging.getLogger("patebench")


def teach(
    *,
    private: Path,
    partition: Path,
    pool: Path,
    test: Path,
    first: int,
    last: int,
    model: str,
    recipe: str,
    epochs: int | None,
    seed: int,
    stream: str,
    out: Path,
    weights: Path | None = None,
    soft: Sequence[float] = (),
) -> None:
    """Train teachers `first` … `last` (inclusive) and write a CHUNK of their votes to `out`.

    Each teacher's randomness is named by its own number, so the votes do not depend on the size of the chunks.
    With `weights`, a folder, every teacher's weights are kept there; with `soft`, temperatures, what the teachers
    together think of the pool is kept for distillation.
    """
    samples, queries, held_out = read_samples(private, "private"), read_arrays(pool, POOL), read_samples(test, "test")
    shards = read_partition(partition, samples)
    if not 0 <= first <= last < shards.meta["teachers"]:
        raise PatebenchError(f"teachers {first}:{last} are not among the {shards.meta['teachers']} of {partition}")
    numbers = np.arange(first, last + 1)
    classes = samples.meta["classes"]
    votes = np.empty((len(numbers), len(queries["x"])), _label_type(classes))
    test_votes = np.empty((len(numbers), len(held_out["x"])), votes.dtype)
    together = SoftVotes(soft, len(queries["x"]), classes)
    kind = partial(make, model, recipe, classes=classes, epochs=epochs)
    owned = [shard(samples, shards, int(number)) for number in numbers]
    seeds = [derive(seed, stream, "teacher", int(number)) for number in numbers]
    with progress(f"teachers {first} to {last}", len(numbers), "teachers") as done:
        for positions, teachers in train(kind, owned, seeds, done):
            votes[positions], test_votes[positions] = teachers.predict(queries["x"]), teachers.predict(held_out["x"])
            together.add(teachers, queries["x"])
            for place, position in enumerate(positions):
                accuracy = 100 * float(np.mean(test_votes[position] == held_out["y"]))
                size = len(owned[position][1])
                log.info("teacher %d: %d samples, %.2f%% on the test set", numbers[position], size, accuracy)
                if weights is not None:
                    teachers.save(place, weights / f"{numbers[position]}.pt")
    meta = {
        **teachers.manner,
        "partition": shards.digest,
        "pool": queries.digest,
        "test": held_out.digest,
        "classes": classes,
        "model": model,
        "recipe": recipe,
        "epochs": epochs_of(recipe, epochs),
        "seed": seed,
        "temperatures": list(soft),
    }
    arrays = {"teachers": numbers, "votes": votes, "test_votes": test_votes, **together.arrays()}
    write_arrays(out, CHUNK, arrays, meta)


def shard(samples: Artefact, partition: Artefact, teacher: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The private samples and labels that `teacher` owns."""
    start, stop = partition["offsets"][teacher : teacher + 2]
    rows = partition["indices"][start:stop]
    return samples["x"][rows], samples["y"][rows]


def _label_type(classes: int) -> np.dtype[Any]:
    """The smallest integer type that holds every label."""
    return np.min_scalar_type(classes - 1)
