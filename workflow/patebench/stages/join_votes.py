"""Stage `join_votes`: join the votes of all teachers of one ensemble into a matrix, and describe the ensemble."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import ABSTAINED, UNIT, WeightedVotes
from patebench.accounting.votes import counts as vote_counts
from patebench.accounting.votes import gaps as vote_gaps
from patebench.artefacts.reading import (
    OF_ROUNDS,
    check_together,
    may_abstain,
    partition_facts,
    private_facts,
    read_samples,
    voting_facts,
)
from patebench.cli.command import OutputFile, stage_command
from patebench.core.blocks import blocks
from patebench.core.class_accuracy import class_accuracy
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, read_arrays, write_arrays, write_json
from patebench.core.formats import CHUNK, PARTITION, POOL, TRUTH, VOTES, WEIGHTS
from patebench.core.text import plural

log = logging.getLogger("patebench")

#: Maximum number of entries of a block of counts (queries × classes), to limit memory.
_COUNTS = 1 << 24

#: Metadata that must be equal in all chunks of an ensemble.
_COMMON = (
    *("classes", "model", "recipe", "epochs", "training", "seed", "temperatures"),
    *("abstentions", "selected", "queries_files", "encoder"),
)
#: Metadata that must be equal in the votes of all rounds.
_IN_ALL_ROUNDS = ("partition", "pool", "test", "classes", "model", "recipe", "epochs", "encoder")


def run(
    *,
    partition: Annotated[Path, "Partition of the private samples among the teachers."],
    pool: Annotated[Path, "Public pool."],
    truth: Annotated[Path, "True labels of the pool."],
    test: Annotated[Path, "Test set."],
    chunk: Annotated[Sequence[Path], "Votes of a chunk of teachers; repeat for each chunk."],
    out: Annotated[OutputFile, "Output file with the vote matrix."],
    summary: Annotated[OutputFile, "Output file with accuracies and gaps."],
    earlier: Annotated[Path | None, "Votes of earlier rounds, from the second round on."] = None,
) -> None:
    """Join the votes of all teachers into one matrix, and measure the accuracy of the votes.

    Each --chunk is a file with the votes of some teachers. The chunks must agree in partition, pool, test set, model
    and training recipe, and contain each teacher once.

    Votes of a round are appended to the votes of earlier rounds (--earlier). The earlier votes must be those of all
    preceding rounds, with the same partition and encoder.
    """
    shards, queries, test_set = read_arrays(partition, PARTITION), read_arrays(pool, POOL), read_samples(test, "test")
    answers = read_arrays(truth, TRUTH)
    parts = [read_arrays(path, CHUNK) for path in chunk]
    first = parts[0]
    check_together(partition=shards, pool=queries, truth=answers, test=test_set, chunk=parts)
    for part in parts:
        for fact in _COMMON:
            part.require(fact, first.meta.get(fact), str(first.path))
    _check_teachers(parts, shards)
    before = _read_earlier_votes(earlier, first)
    names, teachers = queries.meta["class_names"], int(shards.meta["teachers"])
    meta = {name: first.meta[name] for name in ("partition", "pool", "test", "classes", "model", "recipe", "epochs")}
    meta |= {**private_facts(shards), **partition_facts(shards)}
    meta |= {"chunks": [part.digest for part in parts], "temperatures": first.meta.get("temperatures", [])}
    meta |= {name: first.meta[name] for name in ("abstentions", "selected", "encoder") if name in first.meta}
    meta |= voting_facts(first)
    if "weights" in first.arrays:
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in WEIGHTS}
        meta["teachers"] = teachers
    else:
        arrays = {name: _join_array(parts, name) for name in ("votes", "test_votes") if name in first.arrays}
    if "queries" in first.arrays:
        arrays["queries"] = first["queries"]
    if in_rounds := "queries_files" in first.meta:
        meta |= {"queries_files": first.meta["queries_files"], "rounds": [len(arrays["queries"])]}
    if before is not None:
        arrays["votes"] = np.concatenate([before["votes"], arrays["votes"]], axis=1)
        arrays["queries"] = np.concatenate([before["queries"], arrays["queries"]])
        meta |= {"rounds": [*before.meta["rounds"], *meta["rounds"]], "earlier_votes": before.digest}
    if meta["temperatures"]:  # sums of softened probabilities over the teachers of a chunk
        arrays["soft"] = np.stack([part["soft"] for part in parts]).sum(axis=0, dtype=np.float64).astype(np.float32)
    digest = write_arrays(out, VOTES, arrays, meta)
    truths = answers["y"][arrays["queries"]] if "queries" in arrays else answers["y"]
    quality = describe_votes(arrays, teachers, truths, test_set["y"], names, abstentions=may_abstain(first))
    known = [accuracy for accuracy in quality["teacher_accuracies"] if accuracy is not None]
    mean = f"mean accuracy {100 * np.mean(known):.2f}% on the test set; " if known else ""
    log.info(
        "%d teachers: %sthe label with the most votes is right for %.2f%% of the queries",
        teachers, mean, 100 * quality["plurality_accuracy_pool"],
    )  # fmt: skip
    ensemble = {
        "votes": digest,
        "dataset": queries.meta["dataset"],
        "split": queries.meta["split"],
        "teachers": teachers,
        "partition": shards.meta["strategy"],
        "class_names": names,
        "queries": len(arrays["queries"]) if "queries" in arrays and not in_rounds else None,
        **{name: first.meta[name] for name in ("seed", "training", "classes", "model", "recipe", "epochs")},
        **{name: sorted({part.meta[name] for part in parts if name in part.meta}) for name in ("device", "precision")},
    }
    write_json(summary, "join_votes", {**ensemble, **quality})


def _read_earlier_votes(earlier: Path | None, chunk: Artefact) -> Artefact | None:
    """Return the votes of all earlier rounds from the file `earlier`; None if `earlier` is None, as in the first round.

    Raise ArtefactError unless `earlier` contains the votes of all rounds before the round of `chunk`.
    """
    rounds = chunk.meta.get("queries_files", [])
    if earlier is None:
        if rounds[1:]:
            raise ArtefactError(
                chunk.path,
                "it contains votes of a later round, but the votes of earlier rounds are missing",
                "give the votes of the earlier rounds as --earlier",
                code="rounds",
            )
        return None
    before = read_arrays(earlier, VOTES)
    if not rounds:
        fault = f"it is given as --earlier, but the queries of {chunk.path} were not selected in rounds"
        raise ArtefactError(earlier, fault, "leave --earlier out", code="rounds")
    if before.meta.get("queries_files") != rounds[:-1]:
        fault = f"it contains votes of other rounds than those before {chunk.path}"
        raise ArtefactError(earlier, fault, OF_ROUNDS, code="rounds")
    for fact in _IN_ALL_ROUNDS:
        before.require(fact, chunk.meta.get(fact), str(chunk.path))
    return before


def describe_votes(
    arrays: Mapping[str, NDArray[Any]],
    teachers: int,
    truth: NDArray[Any],
    test_truth: NDArray[Any],
    names: Sequence[str],
    *,
    abstentions: bool = False,
) -> dict[str, Any]:
    """Return the accuracies of the teachers and of the plurality (most frequent class), and the gaps of the queries.

    The gap of a query is the difference of its two largest vote counts.

    Parameters
    ----------
    arrays : dict of arrays
        Arrays of a file of votes: `votes` (teachers, queries) or the arrays of weighted votes (`WEIGHTS`), and
        optionally `test_votes` (teachers, test samples).
    teachers : int
        Number of teachers.
    truth, test_truth : (queries,) and (test samples,) int arrays
        True labels.
    names : sequence of str
        Class names.
    abstentions : bool
        True if the teachers may abstain.

    Returns
    -------
    dict
        `teacher_accuracies` are measured on the test samples or, without `test_votes`, on the queries. They are None
        for teachers that always abstain and for weighted votes. `plurality_…_pool` are accuracies of the plurality on
        the queries, `plurality_…_test` on the test samples. If a query has no votes, its plurality counts as
        wrong; with weighted votes, the plurality is class 0. `gap_histogram[g]` is the number of queries with gap g = 0
        … teachers (PATE 2017, Section 4.1); gaps of weighted votes are rounded to whole votes. `gap_mean` is the mean
        gap divided by `teachers`.
    """
    accuracies: list[float | None] = [None] * teachers
    on_test: dict[str, Any] = {"plurality_accuracy_test": None}
    if "weights" in arrays:
        weights, labels, owners = (arrays[name] for name in WEIGHTS)
        table = WeightedVotes.of(weights, labels, owners, len(names)).table(len(names)) / UNIT
        gaps, plurality = np.rint(vote_gaps(table)).astype(np.int64), table.argmax(axis=1)
    else:
        gaps, plurality = _gaps_and_plurality(arrays["votes"], len(names), abstentions)
    if "test_votes" in arrays:
        predicted = _gaps_and_plurality(arrays["test_votes"], len(names), False)[1]
        on_test = class_accuracy(test_truth, predicted, names, "plurality_{}_test")
        accuracies = _accuracies(arrays["test_votes"], test_truth)
    elif "votes" in arrays:
        accuracies = _accuracies(arrays["votes"], truth)
    return {
        "teacher_accuracies": accuracies,
        **class_accuracy(truth, plurality, names, "plurality_{}_pool"),
        **on_test,
        "gap_histogram": np.bincount(gaps, minlength=teachers + 1).tolist(),
        "gap_mean": float(gaps.mean() / teachers),
    }


def _accuracies(votes: NDArray[Any], truth: NDArray[Any]) -> list[float | None]:
    """Return each teacher's accuracy on the samples for which it votes; None if it always abstains."""
    counts = ((int(np.sum(row == truth)), int(np.sum(row != ABSTAINED))) for row in votes)
    return [right / cast if cast else None for right, cast in counts]


def _gaps_and_plurality(
    votes: NDArray[Any], classes: int, abstentions: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the gap and the plurality (most frequent class) of the votes on each query, as (queries,) arrays.

    The gap is the difference of the two largest counts. If a query has no votes, its plurality is −1.
    """
    gaps, plurality = np.empty((2, votes.shape[1]), np.int64)
    for queries in blocks(votes.shape[1], _COUNTS // classes):
        counts = vote_counts(votes[:, queries], classes, abstentions=abstentions)
        # Of tied classes, the lowest is the plurality.
        gaps[queries], plurality[queries] = vote_gaps(counts), np.where(counts.any(axis=1), counts.argmax(1), ABSTAINED)
    return gaps, plurality


def _join_array(chunks: Sequence[Artefact], name: str) -> NDArray[Any]:
    """Join the arrays `name` of all `chunks` into one, with one row per teacher in the order of their numbers."""
    rows = sum(len(part["teachers"]) for part in chunks)
    # Chunks are copied directly to their rows, so memory holds the joined array once.
    result = np.empty((rows, *chunks[0][name].shape[1:]), np.result_type(*(part[name] for part in chunks)))
    for part in chunks:
        result[part["teachers"]] = part[name]
    return result


def _check_teachers(chunks: Sequence[Artefact], shards: Artefact) -> None:
    """Raise ArtefactError unless `chunks` contain each teacher of the partition `shards` exactly once."""
    owners: dict[int, Path] = {}
    for part in chunks:
        for teacher in part["teachers"].tolist():
            if teacher in owners:
                raise ArtefactError(
                    part.path,
                    f"it contains votes of teacher {teacher}, which {owners[teacher]} contains too",
                    "give each chunk of teachers once as --chunk",
                    code="teachers",
                )
            owners[teacher] = part.path
    if missing := set(range(shards.meta["teachers"])) - set(owners):
        raise ArtefactError(
            shards.path,
            f"no --chunk contains votes of its teacher {min(missing)} ({len(missing)} of {shards.meta['teachers']}"
            " teachers are missing)",
            "give all chunks of the ensemble, or run snakemake again to make them",
            code="teachers",
        )
    if extra := set(owners) - set(range(shards.meta["teachers"])):
        raise ArtefactError(
            owners[min(extra)],
            f"it contains votes of teacher {min(extra)} (counted from 0), but {shards.path} is a partition for only"
            f" {plural(shards.meta['teachers'], 'teacher')}",
            "give the partition with which these teachers were trained",
            code="teachers",
        )


command = stage_command(run)
