"""Join the chunks of one ensemble into its vote matrix and say how good the ensemble is."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import counts as vote_counts
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, read_arrays, write_arrays, write_json
from patebench.core.formats import CHUNK, PARTITION, POOL, TRUTH, VOTES
from patebench.data.stage import read_samples
from patebench.teachers import soft

log = logging.getLogger("patebench")


def join(
    *, partition: Path, pool: Path, truth: Path, test: Path, chunks: Sequence[Path], out: Path, summary: Path
) -> None:
    """Write the VOTES of all teachers of `partition` to `out`, and how well they vote to `summary`.

    Refuses chunks of another partition, pool or test set, of another model or recipe than the first, and teachers that
    are missing or come twice.
    """
    shards, queries, held_out = read_arrays(partition, PARTITION), read_arrays(pool, POOL), read_samples(test, "test")
    answers = read_arrays(truth, TRUTH)
    answers.require("pool", queries.digest, str(pool))
    parts = [read_arrays(path, CHUNK) for path in chunks]
    for part in parts:
        part.require("partition", shards.digest, str(partition))
        part.require("pool", queries.digest, str(pool))
        part.require("test", held_out.digest, str(test))
        for fact in ("classes", "model", "recipe", "epochs", "seed", "temperatures"):
            part.require(fact, parts[0].meta.get(fact), str(parts[0].path))
    order = _order(parts, shards)
    votes = np.concatenate([part["votes"] for part in parts])[order]
    test_votes = np.concatenate([part["test_votes"] for part in parts])[order]
    facts = {
        name: parts[0].meta[name] for name in ("partition", "pool", "test", "classes", "model", "recipe", "epochs")
    }
    meta = {**facts, "chunks": [part.digest for part in parts], "temperatures": parts[0].meta.get("temperatures", [])}
    digest = write_arrays(out, VOTES, {"votes": votes, "test_votes": test_votes, **soft.joined(parts)}, meta)
    quality = describe(votes, test_votes, answers["y"], held_out["y"], facts["classes"])
    log.info(
        "%d teachers, %.2f%% accurate on average; plurality %.2f%% on the pool",
        len(votes), 100 * np.mean(quality["teacher_accuracies"]), 100 * quality["plurality_accuracy_pool"],
    )  # fmt: skip
    ensemble = {
        "votes": digest,
        "teachers": len(votes),
        "partition": shards.meta["strategy"],
        "seed": parts[0].meta["seed"],
        **{name: facts[name] for name in ("classes", "model", "recipe", "epochs")},
        **{name: sorted({part.meta[name] for part in parts if name in part.meta}) for name in ("device", "precision")},
    }
    write_json(summary, "ensemble", {**ensemble, **quality})


def describe(
    votes: NDArray[Any], test_votes: NDArray[Any], truth: NDArray[Any], test_truth: NDArray[Any], classes: int
) -> dict[str, Any]:
    """How accurate teachers and plurality are, and the gap between the two largest counts of each query.

    `gap_histogram` holds, for g = 0 … teachers, the number of pool queries whose gap is g (PATE 2017, Section 4.1).
    """
    counts, test_counts = vote_counts(votes, classes), vote_counts(test_votes, classes)
    top = np.sort(counts, axis=1)
    gaps = top[:, -1] - top[:, -2]
    return {
        "teacher_accuracies": np.mean(test_votes == test_truth, axis=1).tolist(),
        "plurality_accuracy_pool": float(np.mean(counts.argmax(1) == truth)),
        "plurality_accuracy_test": float(np.mean(test_counts.argmax(1) == test_truth)),
        "gap_histogram": np.bincount(gaps, minlength=len(votes) + 1).tolist(),
        "gap_mean": float(gaps.mean() / len(votes)),
    }


def _order(parts: Sequence[Artefact], shards: Artefact) -> NDArray[np.int64]:
    """The permutation that puts the teachers of all chunks in order; refuses a gap or a repetition."""
    owners: dict[int, Path] = {}
    for part in parts:
        for teacher in part["teachers"].tolist():
            if teacher in owners:
                raise ArtefactError(part.path, f"its teacher {teacher} is also in {owners[teacher]}")
            owners[teacher] = part.path
    if missing := set(range(shards.meta["teachers"])) - set(owners):
        raise ArtefactError(
            shards.path,
            f"no chunk holds its teacher {min(missing)} ({len(missing)} of {shards.meta['teachers']} are missing)",
            "pass all chunks of the ensemble, or run snakemake again to make them",
        )
    if extra := set(owners) - set(range(shards.meta["teachers"])):
        raise ArtefactError(owners[min(extra)], f"its teacher {min(extra)} is not in the partition {shards.path}")
    return np.argsort(np.concatenate([part["teachers"] for part in parts]), kind="stable")
