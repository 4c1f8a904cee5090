"""The stage `join_votes`: the chunks of one ensemble become its vote matrix, and how good the ensemble is."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import SILENT
from patebench.accounting.votes import counts as vote_counts
from patebench.artefacts.reading import (
    OF_ROUNDS,
    check_together,
    may_abstain,
    partition_facts,
    read_samples,
    way_of_voting,
)
from patebench.cli.command import stage_command
from patebench.core.class_accuracy import class_accuracy
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, read_arrays, write_arrays, write_json
from patebench.core.formats import CHUNK, PARTITION, POOL, TRUTH, VOTES
from patebench.teachers.teacher_outputs import join_soft

log = logging.getLogger("patebench")

_COUNTS = 1 << 24  # of one block of queries × classes


#: What all chunks of an ensemble have in common.
_COMMON = (
    *("classes", "model", "recipe", "epochs", "training", "seed", "temperatures"),
    *("abstentions", "selected", "queries_files", "encoder"),
)
#: And its votes in all rounds.
_IN_ALL_ROUNDS = ("partition", "pool", "test", "classes", "model", "recipe", "epochs", "encoder")


def run(
    *,
    partition: Annotated[Path, "Who owns which private sample."],
    pool: Annotated[Path, "The public pool."],
    truth: Annotated[Path, "True labels of the pool."],
    test: Annotated[Path, "The test set."],
    chunk: Annotated[Sequence[Path], "The votes of a chunk of teachers; repeat for each."],
    out: Annotated[Path, "Where the vote matrix goes."],
    summary: Annotated[Path, "Where accuracies and gaps go."],
    earlier: Annotated[Path | None, "The votes of the rounds before, if there were any."] = None,
) -> None:
    """Join chunks into one vote matrix of all teachers, and describe how well they vote.

    Votes on what a round selected come after those of the rounds before, which are --earlier.

    Refuses chunks of another partition, pool or test set, of another model or recipe than the first, and teachers that
    are missing or come twice; and earlier votes of another partition or encoder, or of other rounds.
    """
    shards, queries, test_set = read_arrays(partition, PARTITION), read_arrays(pool, POOL), read_samples(test, "test")
    answers = read_arrays(truth, TRUTH)
    parts = [read_arrays(path, CHUNK) for path in chunk]
    check_together(partition=shards, pool=queries, truth=answers, test=test_set, chunk=parts)
    for part in parts:
        for fact in _COMMON:
            part.require(fact, parts[0].meta.get(fact), str(parts[0].path))
    _check_teachers(parts, shards)
    arrays = {name: _in_order(parts, name) for name in ("votes", "test_votes") if name in parts[0].arrays}
    facts = {
        name: parts[0].meta[name] for name in ("partition", "pool", "test", "classes", "model", "recipe", "epochs")
    }
    before = _before(earlier, parts[0])
    facts |= {**{name: shards.meta.get(name) for name in ("records", "samples")}, **partition_facts(shards)}
    meta = {**facts, "chunks": [part.digest for part in parts], "temperatures": parts[0].meta.get("temperatures", [])}
    meta |= {name: parts[0].meta[name] for name in ("abstentions", "selected", "encoder") if name in parts[0].meta}
    meta |= way_of_voting(parts[0])
    if "queries" in parts[0].arrays:
        arrays["queries"] = parts[0]["queries"]
    if in_rounds := "queries_files" in parts[0].meta:
        meta |= {"queries_files": parts[0].meta["queries_files"], "rounds": [len(arrays["queries"])]}
    if before is not None:
        arrays["votes"] = np.concatenate([before["votes"], arrays["votes"]], axis=1)
        arrays["queries"] = np.concatenate([before["queries"], arrays["queries"]])
        meta |= {"rounds": [*before.meta["rounds"], *meta["rounds"]], "earlier_votes": before.digest}
    digest = write_arrays(out, VOTES, {**arrays, **join_soft(parts)}, meta)
    votes, abstentions = arrays["votes"], may_abstain(parts[0])
    truths = answers["y"][arrays["queries"]] if "queries" in arrays else answers["y"]
    names = queries.meta["class_names"]
    quality = describe(votes, arrays.get("test_votes"), truths, test_set["y"], names, abstentions=abstentions)
    known = [accuracy for accuracy in quality["teacher_accuracies"] if accuracy is not None]
    log.info(
        "%d teachers, %.2f%% accurate on average; plurality %.2f%% on the pool",
        len(votes), 100 * np.mean(known or [0]), 100 * quality["plurality_accuracy_pool"],
    )  # fmt: skip
    ensemble = {
        "votes": digest,
        "dataset": queries.meta["dataset"],
        "split": queries.meta["split"],
        "teachers": len(votes),
        "partition": shards.meta["strategy"],
        "class_names": names,
        "queries": votes.shape[1] if "queries" in arrays and not in_rounds else None,
        "seed": parts[0].meta["seed"],
        "training": parts[0].meta["training"],
        **{name: facts[name] for name in ("classes", "model", "recipe", "epochs")},
        **{name: sorted({part.meta[name] for part in parts if name in part.meta}) for name in ("device", "precision")},
    }
    write_json(summary, "join_votes", {**ensemble, **quality})


def _before(earlier: Path | None, chunk: Artefact) -> Artefact | None:
    """Return the VOTES of all rounds before that of a CHUNK, by the same teachers; None if there are none."""
    rounds = chunk.meta.get("queries_files", [])
    if earlier is None:
        if rounds[1:]:
            raise ArtefactError(
                chunk.path, "it holds votes of a later round alone", "give the --earlier ones too", code="rounds"
            )
        return None
    before = read_arrays(earlier, VOTES)
    if not rounds or before.meta.get("queries_files") != rounds[:-1]:
        raise ArtefactError(
            earlier, f"it does not hold the votes of the rounds before {chunk.path}", OF_ROUNDS, code="rounds"
        )
    for fact in _IN_ALL_ROUNDS:
        before.require(fact, chunk.meta.get(fact), str(chunk.path))
    return before


def describe(
    votes: NDArray[Any],
    test_votes: NDArray[Any] | None,
    truth: NDArray[Any],
    test_truth: NDArray[Any],
    names: Sequence[str],
    *,
    abstentions: bool = False,
) -> dict[str, Any]:
    """Return accuracies of teachers and plurality, and the gap between the two largest counts of each query.

    `names` are those of the classes. Without `test_votes` the teachers vote on queries alone, and their accuracy is
    that. A teacher that always abstains has none (None), and a query that nobody votes on has no plurality.
    `gap_histogram` holds, for g = 0 … teachers, the number of queries whose gap is g (PATE 2017, Section 4.1).
    """
    gaps, plurality = _gaps_and_plurality(votes, len(names), abstentions)
    on_test: dict[str, Any] = {"plurality_accuracy_test": None}
    if test_votes is not None:
        predicted = _gaps_and_plurality(test_votes, len(names), False)[1]
        on_test = class_accuracy(test_truth, predicted, names, "plurality_{}_test")
    measured = (votes, truth) if test_votes is None else (test_votes, test_truth)
    return {
        "teacher_accuracies": _accuracies(*measured),
        **class_accuracy(truth, plurality, names, "plurality_{}_pool"),
        **on_test,
        "gap_histogram": np.bincount(gaps, minlength=len(votes) + 1).tolist(),
        "gap_mean": float(gaps.mean() / len(votes)),
    }


def _accuracies(votes: NDArray[Any], truth: NDArray[Any]) -> list[float | None]:
    """Return the share of each teacher's votes that is right."""
    both = ((int(np.sum(row == truth)), int(np.sum(row != SILENT))) for row in votes)
    return [right / given if given else None for right, given in both]


def _gaps_and_plurality(
    votes: NDArray[Any], classes: int, abstentions: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each query how far the second class is behind the first, and which that is, the lowest of tied ones.

    −1 where there is no vote.
    """
    gaps, plurality = np.empty((2, votes.shape[1]), np.int64)
    block = max(1, _COUNTS // classes)
    for start in range(0, votes.shape[1], block):
        here = slice(start, start + block)
        counts = vote_counts(votes[:, here], classes, abstentions=abstentions)
        top = np.partition(counts, -2, axis=1)
        gaps[here], plurality[here] = top[:, -1] - top[:, -2], np.where(top[:, -1] > 0, counts.argmax(1), SILENT)
    return gaps, plurality


def _in_order(parts: Sequence[Artefact], name: str) -> NDArray[Any]:
    """Return an array of all chunks, in the order of the teachers; each row is copied once."""
    rows = sum(len(part["teachers"]) for part in parts)
    result = np.empty((rows, *parts[0][name].shape[1:]), np.result_type(*(part[name] for part in parts)))
    for part in parts:
        result[part["teachers"]] = part[name]
    return result


def _check_teachers(parts: Sequence[Artefact], shards: Artefact) -> None:
    """Refuse chunks in which a teacher is missing or comes twice."""
    owners: dict[int, Path] = {}
    for part in parts:
        for teacher in part["teachers"].tolist():
            if teacher in owners:
                raise ArtefactError(part.path, f"its teacher {teacher} is also in {owners[teacher]}", code="teachers")
            owners[teacher] = part.path
    if missing := set(range(shards.meta["teachers"])) - set(owners):
        raise ArtefactError(
            shards.path,
            f"no chunk holds its teacher {min(missing)} ({len(missing)} of {shards.meta['teachers']} are missing)",
            "pass all chunks of the ensemble, or run snakemake again to make them",
            code="teachers",
        )
    if extra := set(owners) - set(range(shards.meta["teachers"])):
        raise ArtefactError(
            owners[min(extra)], f"its teacher {min(extra)} is not in the partition {shards.path}", code="teachers"
        )


command = stage_command(run)
