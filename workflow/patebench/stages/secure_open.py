"""The stage `secure_open`: anybody adds the published sums of all aggregators up to noisy counts and labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

from patebench.cli.command import stage_command
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, write_arrays
from patebench.core.formats import LABELS, NOISY_COUNTS, SHARE_SUM
from patebench.core.seeds import Mode
from patebench.mechanisms.base import Answering
from patebench.mechanisms.noise_shares import plurality
from patebench.release.conditions import of_table, refuse_second_release
from patebench.secure.shares import check_teachers, opened
from patebench.stages.secure_sum import SHARED, asked, check_agreement, promised, shared


def run(
    *,
    sums: Annotated[Sequence[Path], "The published sum of an aggregator; repeat for each."],
    labels: Annotated[Path, "Where the released labels go."],
    counts: Annotated[Path, "Where the noisy counts go."],
) -> None:
    """Add the published sums of all aggregators up to noisy counts, and label each query by the largest."""
    found = [read_arrays(path, SHARE_SUM) for path in sums]
    check_agreement(found, (*SHARED, "sessions"))
    first = found[0]
    for each in found[1:]:
        if not np.array_equal(each["teachers"], first["teachers"]):
            mend = "let all aggregators sum the shares of the same teachers"
            raise ArtefactError(each.path, f"it sums shares of other teachers than {first.path}", mend)
    _check_aggregators(found)
    mechanism = promised(first)
    check_teachers(mechanism, first["teachers"], first.meta["ensemble"], str(first.path))
    for out in (labels, counts):
        refuse_second_release(out, Mode(first.meta["mode"]))
    noisy = opened((each["sum"] for each in found), first["sum"].shape)
    meta, queries = shared(first), asked(first)
    write_arrays(counts, NOISY_COUNTS, {"counts": noisy, "teachers": first["teachers"], **queries}, meta)
    # Nobody here has seen the votes, so nobody can say which they were.
    entries = sorted(first.meta["sessions"].values()) if first.meta["mode"] == Mode.RELEASE else []
    facts = {**meta, "votes": None, "rounds": [], "entries": entries}
    facts |= {"teachers": len(first["teachers"]), **of_table(mechanism, first)}
    table = {"noisy_counts": noisy} if mechanism.answering is Answering.AS_TABLE else {}
    write_arrays(labels, LABELS, {"labels": plurality(noisy), **table, **queries}, facts)


def _check_aggregators(sums: Sequence[Artefact]) -> None:
    given, needed = sorted(each.meta["aggregator"] for each in sums), sums[0].meta["aggregators"]
    if given != list(range(1, needed + 1)):
        raise PatebenchError(f"sums of the aggregators {given} were given, and one of each of {needed} is needed")


command = stage_command(run)
