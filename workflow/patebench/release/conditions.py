"""Check the conditions of a release: its δ, partition and output file."""

from pathlib import Path
from typing import Any

import click

from patebench.core.bound import large_delta
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact
from patebench.core.formats import VOTING_FACTS
from patebench.core.seeds import Mode
from patebench.data.partitions import Change, protecting
from patebench.mechanisms.base import Answering, Mechanism


def check_size_of_delta(mode: Mode, teachers: int | None, *deltas: float | None, votes: Artefact | None = None) -> None:
    """Check that each of `deltas` is below 1/teachers and below 1/records.

    A larger δ raises PatebenchError in release mode, and prints a warning otherwise. The number of records is read from
    `votes`, a file of kind VOTES or CHUNK. This number is public only if neighbours differ by the replacement of one
    record. If it is private, a δ of at least 1/records prints a warning in both modes.
    """
    facts = votes.meta if votes else {}
    records = facts.get("samples")
    public = records if facts.get("protects") == [Change.REPLACE] else None
    for delta in deltas:
        if delta is None:
            continue
        fault = large_delta(delta, teachers, public)
        if fault and mode is Mode.RELEASE and (teachers or public):
            raise PatebenchError(fault, code="large-delta")
        if fault := fault or large_delta(delta, teachers, records):
            click.echo(f"warning: {fault}", err=True)


def reason_unreleasable(source: Artefact) -> str | None:
    """Return the reason why no release may be drawn from `source` (VOTES, CHUNK or LABELS), or None if one may.

    A release from a table of votes, which has no partition, is allowed: its ε protects the votes of one teacher.
    """
    protects = source.meta.get("protects")
    if protects == [Change.LABEL]:
        return "its partition protects only labels, but the ledger of releases adds up the ε of whole records"
    if protects is None or protects:
        return None
    rule, protection = (source.meta.get(name) or "unknown" for name in ("partition_rule", "protection"))
    return f"its partition '{rule}' protects {protection}, so ε of a release protects nobody"


def check_protects(source: Artefact, mode: Mode) -> None:
    """Raise ArtefactError if `mode` is a release and ε would protect nobody, or only the labels of records.

    The partition of the records among the teachers, stored in `source`, determines what ε protects.
    """
    if mode is Mode.RELEASE and (fault := reason_unreleasable(source)):
        if source.meta["protects"]:
            fix = "draw labels from a seed instead, which is not a release"
            raise ArtefactError(source.path, fault, fix, code="labels")
        fix = f"use votes of a partition by one of {protecting()}"
        raise ArtefactError(source.path, fault, fix, code="unprotected")


def table_facts(mechanism: Mechanism, source: Artefact) -> dict[str, Any]:
    """Return the metadata of `source` that a released table of noisy counts must also store, to compute labels later.

    `source` is a file of VOTES, or of shares of votes. The result is empty if `mechanism` does not release its table of
    noisy counts.
    """
    names = VOTING_FACTS if mechanism.answering is Answering.AS_TABLE else ()
    return {name: source.meta[name] for name in names if name in source.meta}


def refuse_second_release(out: Path | str, mode: Mode) -> None:
    """Raise ArtefactError if `mode` is a release and `out` exists, since a second draw would cost ε a second time."""
    if mode is Mode.RELEASE and Path(out).exists():
        raise ArtefactError(
            out,
            "this file already exists, and drawing a release again would spend its ε again",
            "publish the existing file, or choose another output file and limit the total ε with --ledger-budget",
            code="second-release",
        )
