"""Votes of a small ensemble, and the stages that release and account for labels."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from patebench.accounting.votes import UNIT
from patebench.config.parameters import AccountParameters
from patebench.core.files import read_json, write_arrays
from patebench.core.formats import VOTES
from patebench.stages import account, aggregate

OF_TEST: dict[str, Any] = {"partition": "p", "pool": "q", "test": "t", "chunks": []}

#: What a round's queries say of the student that they were selected for.
STUDENT = {"method": "supervised", "model": None, "recipe": None, "epochs": None, "hold_out": None}

#: What hand-made labels store of the votes behind them.
OF_VOTES = {
    **{"teachers": 250, "abstentions": False},
    **{"partition_rule": "iid", "protects": ["replace"], "protection": "one record, replaced in its place"},
}


def write_votes(
    path: Path, votes: np.ndarray, test_votes: np.ndarray, classes: int = 4, soft: Any = None, **more: Any
) -> Path:
    """Write VOTES (teachers, queries) and any sums of probabilities `soft`; `more` is further metadata."""
    arrays = {"votes": votes.astype(np.int8), "test_votes": test_votes.astype(np.uint8)}
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


def random_votes(path: Path) -> Path:
    """Write VOTES of 30 teachers on 60 queries with 4 classes."""
    rng = np.random.default_rng(0)
    return write_votes(path, rng.integers(0, 4, size=(30, 60)), rng.integers(0, 4, size=(30, 10)))


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
