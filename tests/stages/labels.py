"""Votes of a small ensemble, and the stages that release and account for labels."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from patebench.accounting.votes import UNIT, WeightedVotes
from patebench.config.parameters import AccountParameters
from patebench.core.files import read_json, write_arrays
from patebench.core.formats import CHUNK, VOTES
from patebench.stages import account, aggregate

OF_TEST: dict[str, Any] = {"partition": "p", "pool": "q", "test": "t", "chunks": []}

#: Metadata on the student in the queries of a round.
STUDENT = {"method": "supervised", "model": None, "recipe": None, "epochs": None, "hold_out": None}

#: Metadata on the votes in labels that a test writes.
OF_VOTES = {
    **{"teachers": 250, "abstentions": False},
    **{"partition_rule": "iid", "protects": ["replace"], "protection": "one record, replaced in its place"},
}


def even_votes(teachers: int, queries: int = 12) -> np.ndarray:
    """Return votes (teachers, queries) in which teacher i votes for the class i modulo 4 on every query."""
    return np.tile(np.arange(teachers)[:, None] % 4, queries)


def write_votes(path: Path, votes: np.ndarray, classes: int = 4, soft: Any = None, **more: Any) -> Path:
    """Write VOTES (teachers, queries) and any sums of probabilities `soft`; `more` is further metadata.

    The votes on the only test sample are those on the first query.
    """
    arrays = {"votes": votes.astype(np.int8), "test_votes": votes[:, :1].astype(np.uint8)}
    arrays |= {} if soft is None else {"soft": np.array(soft, np.float32)}
    write_arrays(path, VOTES, arrays, {**OF_TEST, "classes": classes, **more})
    return path


def write_weighted_votes(path: Path, teachers: int = 50, queries: int = 12, classes: int = 4, **more: Any) -> Path:
    """Write VOTES with weights; teacher i has the same weight on every query, for the class i modulo `classes`."""
    each = np.arange(teachers)
    weights = np.full((teachers, queries), UNIT // 4, dtype=np.int16)
    facts = {**OF_TEST, "classes": classes, "abstentions": True}
    facts |= {"teachers": teachers, "neighbours": None, "weighted": True, **more}
    write_arrays(path, VOTES, {"weights": weights, "row_labels": each % classes, "row_teachers": each}, facts)
    return path


def write_chunk(path: Path, votes: np.ndarray, numbers: Sequence[int], **more: Any) -> Path:
    """Write a CHUNK of the teachers `numbers` with their `votes` (teachers, queries); `more` is further metadata."""
    arrays = {"teachers": np.array(numbers), "votes": votes, "test_votes": abs(votes[:, :2])}
    if "queries" in more:
        arrays["queries"] = more.pop("queries")
    facts = {"partition": "p", "pool": "q", "test": "t", "classes": 4, "model": "m", "recipe": "r", "training": {}}
    write_arrays(path, CHUNK, arrays, {**facts, **more})
    return path


def write_weighted_chunk(path: Path, rows: WeightedVotes, numbers: Sequence[int], **more: Any) -> Path:
    """Write a CHUNK of the teachers `numbers` with their weights among `rows`; `more` is further metadata."""
    own = np.isin(rows.teachers, numbers)
    arrays = {"teachers": np.array(numbers), **{name: array[own] for name, array in rows.arrays().items()}}
    facts = {"partition": "p", "pool": "q", "test": "t", "classes": 4, "model": "feature-votes", "recipe": "r"}
    write_arrays(path, CHUNK, arrays, {**facts, "training": {}, "abstentions": True, **more})
    return path


def release_labels(votes: Path, mechanism: str, parameters: Mapping[str, float], out: Path, **more: Any) -> Path:
    aggregate.run(votes=votes, mechanism=mechanism, parameters=parameters, out=out, **more)
    return out


def state_bounds(
    votes: Path, labels: Path, queries: Sequence[int], out: Path, delta: float = 1e-5, **more: Any
) -> Path:
    accounting = AccountParameters(delta=delta, queries=tuple(queries))
    account.run(votes=votes, labels=labels, accounting=accounting, out=out, **more)
    return out


def bounds_of(votes: Path, labels: Path, queries: Sequence[int] = (), **more: Any) -> dict[str, Any]:
    """Return the content of the file of bounds, which lies beside `labels`."""
    return read_json(state_bounds(votes, labels, queries, labels.with_suffix(".json"), **more), "account")


def draw_release(votes: Path, mechanism: str, parameters: Mapping[str, float], out: Path, **more: Any) -> Path:
    """Release labels of `votes`; the ledger is a new file beside `out`."""
    ledger = {"ledger": out.with_name(f"{out.stem}-ledger")}
    return release_labels(votes, mechanism, parameters, out, release=True, **{**ledger, **more})
