"""The stage `secure_share`: a chunk of teachers cuts its noisy votes into shares, one file for each aggregator.

Each party of a secure release runs a stage of its own, and none reads the files of another: teachers `secure_share`, an
aggregator `secure_sum`, anybody `secure_open`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import numpy as np

from patebench.accounting.votes import Votes
from patebench.core.entropy import Draws
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, write_arrays
from patebench.core.formats import CHUNK, SHARES
from patebench.secure.party import Party
from patebench.stages.command import file_option, ledgered, mechanism, seeded_or_release, stage_command
from patebench.stages.ledger_file import Place
from patebench.stages.mechanism_options import MechanismCommand
from patebench.stages.reading import check_whole_pool, may_abstain


def run(
    *,
    chunk: Path,
    mechanism: str,
    parameters: Mapping[str, float],
    teachers: int,
    out: Sequence[Path],
    seed: int | None = None,
    stream: str | None = None,
    release: bool = False,
    ledger: Path | None = None,
    ledger_budget: float | None = None,
    ledger_delta: float | None = None,
) -> None:
    """Cut noisy votes of a chunk's teachers into shares, one file --out for each aggregator, in their order.

    With --release the cut stands in the ledger of these teachers' data before it is made.
    """
    if len(out) < 2:
        raise PatebenchError("one aggregator alone would see every vote; give at least two files --out")
    draws = Draws.of(release, seed, stream)
    place = Place.of(draws.mode, ledger, ledger_budget, ledger_delta)
    party = Party.of(mechanism, parameters, teachers, draws)
    source = read_arrays(chunk, CHUNK)
    numbers, classes = source["teachers"], int(source.meta["classes"])
    if numbers.max() >= teachers:
        raise ArtefactError(chunk, f"it holds teacher {numbers.max()}, and there are {teachers}", "give their number")
    check_whole_pool(source)
    if may_abstain(source):
        raise ArtefactError(
            chunk,
            "its teachers may keep silent, and shares of silence have no mechanism yet",
            "let one party sum their votes",
        )
    # What it costs does not depend on the votes, which nobody here has seen all of.
    made_up = Votes.of(np.zeros((teachers, source["votes"].shape[1]), dtype=np.int64), classes)
    who, session = (int(numbers.min()), int(numbers.max())), party.session()
    place.write_down(source, out[0], mechanism, party.mechanism, made_up, key=session, teachers=who)
    cut = [
        party.share(int(number), votes, classes, len(out))
        for number, votes in zip(numbers, source["votes"], strict=True)
    ]
    meta = {"pool": source.meta["pool"], "classes": classes, **party.meta(len(out)), "session": session}
    for i, (path, held) in enumerate(zip(out, zip(*cut, strict=True), strict=True)):
        arrays = {"shares": np.stack(held), "teachers": np.asarray(numbers, dtype=np.int64)}
        write_arrays(path, SHARES, arrays, {**meta, "aggregator": i + 1})


command = stage_command(
    run,
    file_option("chunk", "The votes of a chunk of teachers, who run this."),
    mechanism,
    click.option("--teachers", type=click.IntRange(min=1), required=True, help="How many teachers there are in all."),
    seeded_or_release,
    ledgered,
    file_option("out", "Where an aggregator's shares go; repeat for each aggregator.", several=True),
    cls=MechanismCommand,
)
