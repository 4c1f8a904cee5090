"""Stage `secure_open`: compute noisy counts and labels from the published sums of all aggregators."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import UNIT, winners
from patebench.cli.command import OutputFile, stage_command
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, write_arrays
from patebench.core.formats import LABELS, NOISY_COUNTS, SHARE_SUM
from patebench.core.seeds import Mode
from patebench.mechanisms.base import Answering
from patebench.release.conditions import refuse_second_release, table_facts
from patebench.secure.shares import check_teachers, sum_shares
from patebench.stages.secure_sum import check_agreement, query_arrays, shared_facts, stated_mechanism


def run(
    *,
    sums: Annotated[Sequence[Path], "Published sum of an aggregator; repeat for each aggregator."],
    labels: Annotated[OutputFile, "Output file with the released labels."],
    counts: Annotated[OutputFile, "Output file with the noisy counts."],
) -> None:
    """Add up the published sums of all aggregators, which gives noisy counts, and label queries by the largest count.

    The sums are public, so anyone can run this stage.
    """
    parts = [read_arrays(path, SHARE_SUM) for path in sums]
    check_agreement(parts, "sessions")
    first = parts[0]
    for part in parts[1:]:
        if not np.array_equal(part["teachers"], first["teachers"]):
            raise ArtefactError(
                part.path,
                f"this sum and {first.path} contain shares of different teachers",
                "let all aggregators sum the shares of the same teachers",
            )
    numbers, needed = sorted(part.meta["aggregator"] for part in parts), first.meta["aggregators"]
    if numbers != list(range(1, needed + 1)):
        raise PatebenchError(
            f"--sums gives the sums of the aggregators {', '.join(map(str, numbers))}, but one sum of each aggregator "
            f"from 1 to {needed} is needed; repeat --sums once for each aggregator"
        )
    mechanism = stated_mechanism(first)
    check_teachers(mechanism, first["teachers"], first.meta["ensemble"], str(first.path))
    for out in (labels, counts):
        refuse_second_release(out, Mode(first.meta["mode"]))
    noisy: NDArray[Any] = sum_shares(part["sum"] for part in parts).astype(np.int64)
    if first.meta.get("weighted"):
        noisy = noisy / UNIT
    meta, queries = shared_facts(first), query_arrays(first)
    write_arrays(counts, NOISY_COUNTS, {"counts": noisy, "teachers": first["teachers"], **queries}, meta)
    # No party has seen all votes, so their digest is unknown.
    entries = sorted(first.meta["sessions"].values()) if first.meta["mode"] == Mode.RELEASE else []
    facts = {**meta, "votes": None, "rounds": [], "entries": entries}
    facts |= {"teachers": len(first["teachers"]), **table_facts(mechanism, first)}
    table = {"noisy_counts": noisy} if mechanism.answering is Answering.AS_TABLE else {}
    write_arrays(labels, LABELS, {"labels": winners(noisy), **table, **queries}, facts)


command = stage_command(run)
