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
    """Check that each of `deltas` is below 1/`teachers`, and below 1/records for the number of private records.

    In release mode, a δ of at least 1/`teachers` raises PatebenchError. In seeded mode (labels for experiments only),
    it prints a warning.

    The number of records is in the metadata of `votes`, a file of kind VOTES or CHUNK. This number is public if the
    partition protects only against a replaced record; otherwise, it is private. For a public number, a δ of at least
    1/records raises PatebenchError in release mode. In all other cases, it prints a warning.
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

    `source` is a file of votes (kind VOTES or CHUNK) or of labels (LABELS). The partition of the records into shards
    forbids a release in two cases:

    - it protects only the labels of records;
    - it protects nobody, because one changed record may alter several shards.

    A release without a partition, as from imported votes, is allowed: its ε protects the votes of one teacher.
    """
    protects = source.meta.get("protects")
    if protects == [Change.LABEL]:
        return "its partition protects only labels, but the ledger of releases adds up the ε of whole records"
    if protects is None or protects:
        return None
    rule, protection = (source.meta.get(name) or "unknown" for name in ("partition_rule", "protection"))
    return f"its partition '{rule}' protects {protection}, so ε of a release protects nobody"


def check_protects(source: Artefact, mode: Mode) -> None:
    """Raise ArtefactError if `mode` is a release, and the partition of the records in `source` forbids a release.

    A partition forbids a release in two cases: it protects only the labels of records, or it protects nobody because
    one changed record may alter several shards.
    """
    if mode is Mode.RELEASE and (fault := reason_unreleasable(source)):
        if source.meta["protects"]:
            fix = "draw labels from a seed instead, which is not a release"
            raise ArtefactError(source.path, fault, fix, code="labels")
        fix = f"use votes of a partition by one of {protecting()}"
        raise ArtefactError(source.path, fault, fix, code="unprotected")


def table_facts(mechanism: Mechanism, source: Artefact) -> dict[str, Any]:
    """Return the metadata on votes that labels store together with a released table of noisy counts.

    The metadata (`VOTING_FACTS`) are the number of queries on which each record votes, and True if votes have weights.
    Students that learn from the whole table need them. They are copied from `source`, a file of votes or of an
    aggregator's sum in secure aggregation. The result is empty if `mechanism` releases no table.
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
