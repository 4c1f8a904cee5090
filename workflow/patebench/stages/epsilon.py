"""Command `epsilon`: compute every bound on ε for votes in a file."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import click

from patebench.accounting.logspace import Array
from patebench.accounting.sanitised import SanitisingNoise, fresh
from patebench.accounting.spending import Spending
from patebench.artefacts import votes_file
from patebench.calculator import show
from patebench.calculator.calculations import epsilon
from patebench.cli.command import CLASSES, COUNT, FILE, all_processes, ledgered, show_on_terminal, stage_command
from patebench.cli.mechanism_options import MechanismCommand, answering
from patebench.core.bound import check_delta
from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact
from patebench.core.seeds import Mode
from patebench.mechanisms.base import make_mechanism
from patebench.release.conditions import check_protects, check_size_of_delta, reason_unreleasable
from patebench.release.ledger_file import Entry, Place, changes_of, owners_of, records_of, shards_of


def run(
    *,
    file: Path,
    mechanism: str,
    parameters: Mapping[str, float],
    delta: float,
    queries: Annotated[int | None, "Number of queries [default: all].", COUNT],
    votes: Annotated[bool, "FILE contains votes (teachers × queries) instead of counts."],
    classes: Annotated[int | None, "Number of classes, with --votes.", CLASSES],
    teachers: int | None,
    sanitise: Annotated[bool, "Also draw sanitised bounds; each draw is a release of its own."],
    release: bool,
    ledger: Path | None,
    ledger_budget: float | None,
    ledger_delta: float | None,
    private: str | None,
    publishable: Annotated[bool, "Compute only publishable bounds: worst-case and, with --sanitise, sanitised bounds."],
    as_json: bool,
) -> None:
    """Compute every bound on ε for releasing labels of the votes in FILE (.npy, CSV, or an ensemble's votes.npz).

    FILE contains counts (queries × classes) or, with --votes, votes (teachers × queries). With --release, only bounds
    for released labels (discrete noise) are computed.

    Publishable bounds are printed first. Data-dependent bounds take longer; --publishable leaves them out.

    With --sanitise, sanitised bounds are drawn as well. A sanitised bound is a release in addition to the labels, so it
    is entered in the ledger of the private data before it is drawn.
    """
    if release and sanitise:
        raise PatebenchError(
            "--release means discrete noise, for which no sanitised bound is proven; give --release or --sanitise, not"
            " both"
        )
    ledger_options = ledger, ledger_budget, ledger_delta, private
    if not sanitise and ledger_options != (None, None, None, None):
        line = "--ledger and --private are only for sanitised bounds; leave them out, or give --sanitise"
        raise PatebenchError(line)
    place = Place.of(Mode.RELEASE, *ledger_options) if sanitise else None
    make_mechanism(mechanism, parameters)  # report its errors before any work or output
    check_delta(delta)
    source, read_votes = votes_file.read_source(file, votes, classes, teachers)
    votes_file.report_sizes(source, read_votes)
    mode = Mode.RELEASE if release or sanitise else Mode.SEEDED
    check_protects(source, mode)
    check_size_of_delta(mode, read_votes.teachers, delta, ledger_delta, votes=source)
    unreleasable = reason_unreleasable(source)
    if unreleasable:
        click.echo(f"{file}: {unreleasable}; no release can be drawn from these votes", err=True)
    noise = None if place is None else _ledgered_noise(place, source, mechanism, parameters)
    account = partial(epsilon, read_votes, mechanism, parameters, delta, queries, release=release)
    result = replace(account(noise=noise, publishable=True), unreleasable=unreleasable)
    if not as_json:
        show_on_terminal(show.account_table(result))
    if not publishable:
        not_publishable = account(publishable=False)
        result = replace(result, bounds=[*result.bounds, *not_publishable.bounds])
        if not_publishable.bounds and not as_json:
            show_on_terminal("")
            show_on_terminal(show.account_table(not_publishable))
    if as_json:
        show_on_terminal(show.as_json(result))


def _ledgered_noise(place: Place, source: Artefact, mechanism: str, parameters: Mapping[str, float]) -> SanitisingNoise:
    """Return the noise of sanitised bounds, which makes an entry in the ledger at `place` before every draw.

    The entry states the file of votes `source`, the name `mechanism` and the `parameters` of this mechanism.
    """

    def write_down(queries: int, divergences: Array) -> None:
        spent = Spending(
            partition=shards_of(source),
            divergences=divergences,
            protects=changes_of(source),
            owners=owners_of(source),
        )
        what = f"a sanitised ε of {source.path}"
        entry = Entry(what=what, mechanism=mechanism, parameters=parameters, queries=queries, spent=spent)
        place.enter(records_of(source), entry)

    return replace(fresh, record_cost=write_down)


command = stage_command(
    run,
    click.Argument(["file"], type=FILE),
    votes_file.teachers_option,
    all_processes,
    *ledgered,
    *answering,
    cls=MechanismCommand,
)
