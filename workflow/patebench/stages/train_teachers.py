"""Stage `train_teachers`: train the teachers of one chunk and write their votes."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import WeightedVotes
from patebench.artefacts.reading import (
    OF_ROUNDS,
    check_distinct,
    check_pool_protection,
    check_together,
    partition_facts,
    private_facts,
    read_encoder,
    read_partition,
    read_samples,
)
from patebench.cli.command import OutputFile, TeacherRange, stage_command, threads
from patebench.config.parameters import KeptOutputs, TrainingParameters
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, write_arrays
from patebench.core.formats import CHUNK, ENCODER, FEATURES, POOL, QUERIES
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.features import Encoder
from patebench.models import epochs_of, make_learner, on_features, on_queries, weighted

log = logging.getLogger("patebench")

_NOTHING = KeptOutputs()


def run(
    *,
    private: Annotated[Path, "Private samples."],
    partition: Annotated[Path, "Partition of the private samples among the teachers."],
    pool: Annotated[Path, "Public pool."],
    test: Annotated[Path, "Test set."],
    teachers: Annotated[tuple[int, int], "Range of teachers to train, such as 0-24.", TeacherRange()],
    training: TrainingParameters,
    seed: int,
    stream: str,
    out: Annotated[OutputFile, "Output file with the votes."],
    kept: KeptOutputs = _NOTHING,
    selected: Annotated[
        Sequence[Path], "Queries to vote on [default: the whole pool]. In rounds, repeat for each round so far."
    ] = (),
    features: Annotated[Path | None, "Features of the pool, for models that use them."] = None,
    encoder: Annotated[Path | None, "Encoder of the pool's features, for models that use them."] = None,
) -> None:
    """Train a chunk of teachers, and write their votes on the pool (or the --selected queries) and on the test set.

    The random stream of a teacher depends on its number, so the votes do not depend on the chunk size.

    With --soft, the class probabilities of all teachers in the chunk are summed for each query and each given
    temperature, and stored for distillation. With --hints, each teacher's probabilities and hints (outputs of a hidden
    layer) are stored for PET-DL.

    Some models vote with public features and are not trained: each private record of a teacher votes for its own label.
    These models need --features of the pool and the --encoder of these features.

    In active learning, queries are selected in rounds. --selected lists the queries of all rounds so far, in order, and
    teachers vote on the queries of the last round. After the first round, only the model nearest-query can vote. In
    this model, a record votes on its nearest queries. They are determined among the queries of all rounds so far, but
    only queries of the last round get a vote.
    """
    samples, queries, test_set = read_samples(private, "private"), read_arrays(pool, POOL), read_samples(test, "test")
    shards = read_partition(partition, samples)
    check_together(partition=shards, pool=queries)  # else a shard might hold a query
    check_pool_protection(queries, shards)
    first, last = teachers
    if not 0 <= first <= last < shards.meta["teachers"]:
        line = (
            f"teachers {first}-{last} are not among the {shards.meta['teachers']} teachers of {partition}, numbered"
            " from 0"
        )
        raise PatebenchError(line, code="teachers", where="--teachers")
    rounds = _read_rounds(selected, queries)
    if len(rounds) > 1 and not on_queries(training.model):
        raise ArtefactError(
            selected[-1],
            f"it contains queries of a later round, but teachers of the model '{training.model}' vote only in the first"
            " round",
            "give --selected once, with the queries of the first round",
            code="rounds",
        )
    numbers = np.arange(first, last + 1)
    if on_queries(training.model):
        if kept != _NOTHING:
            raise PatebenchError(
                f"teachers of '{training.model}' compute no probabilities; leave out --soft and --hints"
            )
        if features is None or encoder is None:
            raise PatebenchError(
                f"teachers of the model '{training.model}' vote by public features; give --features and --encoder"
            )
        arrays, facts = _vote_with_features(samples, shards, numbers, queries, rounds, features, encoder, training)
    else:
        if shards.meta.get("empty"):
            raise ArtefactError(
                partition,
                f"it allows empty shards, but teachers of the model '{training.model}' need samples in each shard",
                "give a partition made without --empty",
            )
        if on_features(training.model):
            if encoder is None or features is not None:
                line = f"'{training.model}' computes features with --encoder; give --encoder, and leave --features out"
                raise PatebenchError(line, code="encoder")
        elif features is not None or encoder is not None:
            raise PatebenchError(f"the model '{training.model}' uses no features; leave out --features and --encoder")
        public_encoder = read_encoder(encoder, queries) if encoder else None
        asked = queries["x"][rounds[0]["queries"]] if rounds else queries["x"]
        arrays, facts = _train_and_vote(
            samples, shards, numbers, asked, test_set, training, (seed, stream), kept, public_encoder
        )
        if encoder:
            facts["encoder"] = read_arrays(encoder, ENCODER).digest
    if rounds:
        arrays["queries"] = rounds[-1]["queries"]
        if len(rounds) == 1 and rounds[0].meta["student"] is None:
            facts["selected"] = rounds[0].digest
        else:
            facts["queries_files"] = [file.digest for file in rounds]
    meta = {
        **facts,
        "partition": shards.digest,
        **private_facts(shards),
        **partition_facts(shards),
        "pool": queries.digest,
        "test": test_set.digest,
        "classes": samples.meta["classes"],
        "model": training.model,
        "recipe": training.recipe,
        "epochs": epochs_of(training.recipe, training.epochs),
        "training": training.model_dump(),
        "seed": seed,
        "temperatures": list(kept.soft),
        "hints": kept.hints,
    }
    write_arrays(out, CHUNK, {"teachers": numbers, **arrays}, meta)


def _read_rounds(paths: Sequence[Path], pool: Artefact) -> list[Artefact]:
    """Return the queries of each round from the files `paths`, first round first.

    Raise ArtefactError if the files do not belong to successive rounds on `pool`.
    """
    rounds = [read_arrays(path, QUERIES) for path in paths]
    check_together(pool=pool, queries=rounds)
    for place, file in enumerate(rounds):
        if place == 0 and file.meta["labels"] is not None:
            raise ArtefactError(
                file.path,
                "its queries were selected after an earlier round, but the queries of that round are missing",
                "give --selected once for each round, first round first",
                code="rounds",
            )
        if place and file.meta["labels"] is None:
            raise ArtefactError(
                file.path,
                f"it contains queries of the first round, but --selected names {paths[0]} before it",
                OF_ROUNDS,
                code="rounds",
            )
        if file["queries"].max() >= len(pool["x"]):
            raise ArtefactError(
                file.path,
                f"it selects sample {file['queries'].max()}, but {pool.path} has only {len(pool['x'])} samples",
                "give queries that were selected from this pool",
                code="queries",
            )
    if rounds:
        check_distinct(np.concatenate([file["queries"] for file in rounds]), paths[-1])
    return rounds


def _vote_with_features(
    samples: Artefact,
    shards: Artefact,
    numbers: NDArray[np.int64],
    pool: Artefact,
    rounds: Sequence[Artefact],
    features: Path,
    encoder: Path,
    training: TrainingParameters,
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the votes of the teachers `numbers` as a dict of arrays, and metadata on these votes.

    These teachers are not trained: each of their private records votes for its own label. A record votes on the queries
    with the nearest features or, if votes have weights, on all queries. `rounds` contains the queries of each round so
    far, and only votes on the last round are returned. If `rounds` is empty, the queries are the whole pool. `features`
    and `encoder` are paths of files.
    """
    from patebench.features import cells

    known, learnt = read_arrays(features, FEATURES), read_arrays(encoder, ENCODER)
    check_together(pool=pool, features=known, encoder=learnt)
    positions = np.concatenate([file["queries"] for file in rounds]) if rounds else np.arange(len(pool["x"]))
    neighbours, classes = training.neighbours, int(samples.meta["classes"])
    if neighbours is not None and neighbours > len(positions):
        raise PatebenchError(
            f"--neighbours is {neighbours}, but there are only {len(positions)} queries; use at most {len(positions)}"
        )
    if weighted(training.model) and len(rounds) > 1:
        raise PatebenchError(
            f"teachers of the model '{training.model}' cannot vote in several rounds; give --selected once, with all"
            " queries"
        )
    offsets = shards["offsets"][numbers[0] : numbers[-1] + 2]
    rows = shards["indices"][offsets[0] : offsets[-1]]
    public_encoder = read_encoder(encoder, pool)
    # The vote of a record depends only on public data and on the record itself.
    with progress(f"records of teachers {numbers[0]} to {numbers[-1]}", len(rows), "records") as done:
        vectors = public_encoder.features_alone(samples["x"][rows], done)
    labels, teachers = samples["y"][rows], np.repeat(numbers, np.diff(offsets))
    log.info("teachers %d to %d: votes of %d records", numbers[0], numbers[-1], len(rows))
    facts = {"abstentions": True, "encoder": learnt.digest}
    if weighted(training.model):
        weights = cells.Directions.of(known["vectors"], positions).weights(vectors)
        if not len(rows):  # a file without rows would not be written; a row of zeros stands for no votes
            weights, labels, teachers = np.zeros((1, len(positions)), np.int16), np.zeros(1, np.int64), numbers[:1]
        # Weighted votes have a norm of at most 1 per teacher.
        return WeightedVotes.of(weights, labels, teachers, classes).limited(1).arrays(), facts
    place = cells.queries_voted_on(vectors, known["vectors"], positions, neighbours)
    voter, vote = (np.repeat(values, place.shape[1]) for values in (teachers - numbers[0], labels))
    # Votes on queries of earlier rounds were cast in those rounds.
    earlier = len(positions) - len(rounds[-1]["queries"]) if rounds else 0
    here, shape = place.ravel() >= earlier, (len(numbers), len(positions) - earlier)
    return {"votes": cells.record_votes(voter[here], place.ravel()[here] - earlier, vote[here], shape, classes)}, facts


def _train_and_vote(
    samples: Artefact,
    shards: Artefact,
    numbers: NDArray[np.int64],
    queries: NDArray[Any],
    test_set: Artefact,
    training: TrainingParameters,
    randomness: tuple[int, str],
    kept: KeptOutputs,
    encoder: Encoder | None,
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Train the teachers `numbers`; return the teachers' outputs as arrays, and metadata on the computing device.

    The outputs are votes on the samples `queries` and on `test_set`. If `kept` says so, they also include probabilities
    and hints (outputs of a hidden layer). `randomness` is the base seed and the name of the stream. If an `encoder` is
    given, teachers learn from the features that it computes.
    """
    from patebench.teachers.teacher_outputs import TeacherOutputs
    from patebench.teachers.teacher_training import train

    classes = samples.meta["classes"]
    smallest = np.min_scalar_type(classes - 1)  # smallest type for all labels
    votes = np.empty((len(numbers), len(queries)), smallest)
    test_votes = np.empty((len(numbers), len(test_set["x"])), smallest)
    outputs = TeacherOutputs(kept.soft, kept.hints)
    learner = partial(make_learner, training.model, training.recipe, classes=classes, epochs=training.epochs)
    owned = [read_shard(samples, shards, number) for number in numbers.tolist()]
    test_x = test_set["x"]
    if encoder is not None:
        queries, test_x = encoder.features(queries), encoder.features(test_x)
        with progress(f"features of teachers {numbers[0]} to {numbers[-1]}", len(owned), "teachers") as done:
            for number, (x, y) in enumerate(owned):
                owned[number] = encoder.features_alone(x), y
                done(number + 1)
    seeds = [derive(*randomness, "teacher", number) for number in numbers.tolist()]
    with progress(f"teachers {numbers[0]} to {numbers[-1]}", len(numbers), "teachers") as done:
        for positions, trained in train(learner, owned, seeds, done):
            votes[positions], test_votes[positions] = trained.predict(queries), trained.predict(test_x)
            outputs.add(positions, trained, queries)
            for position in positions:
                accuracy = 100 * float(np.mean(test_votes[position] == test_set["y"]))
                size = len(owned[position][1])
                log.info("teacher %d: %d samples, accuracy %.2f%% on the test set", numbers[position], size, accuracy)
    return {"votes": votes, "test_votes": test_votes, **outputs.arrays()}, dict(trained.device_facts)


def read_shard(samples: Artefact, partition: Artefact, teacher: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the private samples `x` and labels `y` of the shard of `teacher`."""
    start, stop = partition["offsets"][teacher : teacher + 2]
    rows = partition["indices"][start:stop]
    return samples["x"][rows], samples["y"][rows]


command = stage_command(run, threads)
