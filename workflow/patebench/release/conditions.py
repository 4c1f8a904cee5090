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
    """Check that each of `deltas` is below 1/`teachers`, and below 1/n for n private records.

    A δ that is too large raises PatebenchError. In three cases, only a warning is printed:

    - `mode` is not a release: the noise comes from a seed;
    - δ is too large only for n, and n is private. n is public only if ε protects against replaced records alone;
    - `teachers` is None, and n is private or unknown.

    The number n is read from the metadata of `votes`, a file of kind VOTES or CHUNK.
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
    """Return the reason why a release from `source` is forbidden; None if it is allowed.

    `source` is a file of votes (kind VOTES or CHUNK) or of labels (LABELS). A release is forbidden in two cases, which
    depend on the partition of the private records into shards:

    - ε would protect only the labels of records;
    - ε would protect no record, because one changed record may alter several shards.

    Imported votes without a partition may be released: ε then protects the votes of one teacher.
    """
    protects = source.meta.get("protects")
    if protects == [Change.LABEL]:
        return "its partition protects only labels, but the ledger of releases adds up the ε of whole records"
    if protects is None or protects:
        return None
    rule, protection = (source.meta.get(name) or "unknown" for name in ("partition_rule", "protection"))
    return f"its partition '{rule}' protects {protection}, so ε of a release protects nobody"


def check_protects(source: Artefact, mode: Mode) -> None:
    """Raise ArtefactError if `mode` is a release and ε would not protect whole private records.

    This depends on the partition of the records into shards, which is stored in the file `source`. See
    `reason_unreleasable`.
    """
    if mode is Mode.RELEASE and (fault := reason_unreleasable(source)):
        if source.meta["protects"]:
            fix = "draw labels from a seed instead, which is not a release"
            raise ArtefactError(source.path, fault, fix, code="labels")
        fix = f"use votes of a partition by one of {protecting()}"
        raise ArtefactError(source.path, fault, fix, code="unprotected")


def table_facts(mechanism: Mechanism, source: Artefact) -> dict[str, Any]:
    """Return metadata on the votes, to be stored with a released table of noisy counts.

    The result is copied from `source`, a file of votes or of an aggregator's sum in secure aggregation. `neighbours` is
    the number of queries on which each record votes, and `weighted` is True if votes have weights. The result is empty
    if `mechanism` releases no table, or if `source` does not contain these entries.
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
