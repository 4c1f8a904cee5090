"""The stage `account`: what a label set costs, by every theorem of its mechanism."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from patebench.accounting import spending
from patebench.accounting.accountant import DirectAccountant, check_queries
from patebench.accounting.sanitised import SanitisingNoise
from patebench.accounting.sanitised import seeded as seeded_noise
from patebench.accounting.votes import Votes
from patebench.artefacts.reading import Selected, check_drawn_from
from patebench.artefacts.votes_file import read_source, say_what_was_read, table_options
from patebench.cli.command import file_option, parameter_options, processes, stage_command
from patebench.config.parameters import AccountParameters
from patebench.core.bound import Bound, Kind, curves
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, write_json
from patebench.core.formats import LABELS, PARTITION_FACTS
from patebench.core.seeds import Mode
from patebench.core.text import plural
from patebench.mechanisms.base import (
    Mechanism,
    budget_bounds,
    check_adaptive,
    check_budget,
    check_releasable,
    labels_within,
)
from patebench.release.conditions import check_protects, check_size_of_delta, mechanism_of
from patebench.release.ledger_file import Entry, Ledger, records_of, shards_of

#: What bounds repeat of the labels that they are of.
_FACTS = ("votes", "mechanism", "parameters", "mode", "rounds", *PARTITION_FACTS)

#: What bounds of labels from a seed say first.
_SEEDED = (
    "The noise of these labels comes from a named seed: whoever knows it takes the noise off, so they are no release "
    "and no ε here may be published of them. A worst-case ε is that of labels whose noise is drawn afresh, once."
)

#: What bounds of a release say that were stated without its ledger.
_NO_LEDGER = (
    "No ledger was given. ε is the worst case of the mechanism, queries and number of teachers that the labels store. "
    "That they were drawn from these very votes was not checked, and releases of the same private data are not counted."
)

#: What to do about labels that do not belong to the other files; they may be a release, which is drawn once.
_VOTES, _QUERIES = "give the votes that it was drawn from", "give the queries of the rounds that it was drawn in"

#: What ε protects where votes come without a partition.
_OF_TEACHER = "the votes of one teacher; which records these depend on is not known"


def run(
    *,
    votes: Path,
    labels: Path,
    accounting: AccountParameters,
    out: Path,
    seed: int | None = None,
    stream: str | None = None,
    selected: Sequence[Path] = (),
    ledger: Path | None = None,
    classes: int | None = None,
    teachers: int | None = None,
) -> None:
    """State every bound on ε that these labels have: mechanism, queries, budget and rounds are read from them.

    Labels that store another number of teachers, partition rule or protection than the votes are refused, and so is a
    release whose entries in its ledger do not match. Without a ledger the statement says what was not checked.

    The cost of the first T queries is bounded for each T, and that of many others is kept beside as curves, for
    figures. Of a release only the cost of all that was released is stated, and only by bounds that hold for discrete
    noise; from its ledger, also what all releases of the same private data cost together. From seed and stream,
    sanitised bounds of labels for experiments are drawn; they have no curves, since every draw is a release.

    Of queries that rounds selected, the cost of all together is stated. Worst-case bounds hold as queries are selected
    on the way, but for those whose composition needs queries that are fixed beforehand: these are left out.
    Data-dependent ones add up along the queries that were put, as if they had been fixed: their source says so. None is
    sanitised.
    """
    source, everything = read_source(votes, classes is not None, classes, teachers)
    say_what_was_read(source, everything)
    given = _read_labels(labels, source, everything)
    mode, made = Mode(given.meta["mode"]), mechanism_of(given.meta)
    release = mode is Mode.RELEASE
    if release:
        check_releasable(given.meta["mechanism"], type(made))
        check_protects(given, mode)
    check_size_of_delta(mode, everything.teachers, accounting.delta, votes=source)
    wanted = _queries(given, accounting.queries, mode)
    if given.meta["rounds"]:
        rounds = _read_rounds(given, selected, source)
        bounds = made.bounds(rounds.votes(everything), wanted, accounting.delta, discrete=release, adaptive=True)
        said = [bound.said_of(release).to_json() for bound in bounds]
        stated: dict[str, Any] = {"bounds": said, "curves": [], "teacher_costs": []}
    else:
        if selected:
            raise ArtefactError(labels, "it answers the whole pool, and no round selected that", "leave --selected out")
        noise = _noise(mode, seed, stream)
        stated = _whole_pool(given, made, everything, wanted, accounting.delta, noise)
    if ledger is not None:
        written = _read_ledger(given, source, everything, ledger)
        stated["bounds"] += [bound.to_json() for bound in _together(given, written, wanted, accounting.delta)]
    if not release:
        stated["statement"] = _SEEDED
    elif ledger is None:
        stated["statement"] = _NO_LEDGER
        click.echo(f"{labels}: {_NO_LEDGER}", err=True)
    payload: dict[str, Any] = {name: given.meta[name] for name in _FACTS}
    payload |= {"teachers": everything.teachers, "protection": payload["protection"] or _OF_TEACHER}
    payload |= {"labels": given.digest, "delta": accounting.delta, "queries": wanted}
    write_json(out, "account", {**payload, **stated})


def _read_labels(path: Path, votes: Artefact, everything: Votes) -> Artefact:
    """Read LABELS that were drawn from these votes, as far as they store it."""
    labels = read_arrays(path, LABELS)
    check_drawn_from(labels, votes, everything)
    if not labels.meta["rounds"] and not _of_the_queries(labels, votes, everything.queries):
        raise ArtefactError(path, f"it does not hold one label for each query of {votes.path}", _VOTES)
    return labels


def _of_the_queries(labels: Artefact, votes: Artefact, queries: int) -> bool:
    """Whether there is one label for each query of the votes."""
    in_turn = np.arange(queries)
    labelled = labels.arrays.get("queries", np.arange(len(labels["labels"])))
    return np.array_equal(labelled, votes.arrays.get("queries", in_turn))


def _read_rounds(labels: Artefact, selected: Sequence[Path], votes: Artefact) -> Selected:
    """The queries of all rounds that these labels are of."""
    check_adaptive(labels.meta["mechanism"], mechanism_of(labels.meta))
    if not selected:
        raise ArtefactError(
            labels.path, "its queries were selected in rounds", "give the file --selected of each round"
        )
    rounds = Selected.read(selected, votes)
    if rounds.facts()["queries_files"] != labels.meta["queries_files"]:
        raise ArtefactError(labels.path, f"its rounds are others than {', '.join(map(str, selected))}", _QUERIES)
    return rounds


def _queries(labels: Artefact, wanted: Sequence[int], mode: Mode) -> list[int]:
    """The numbers of queries to account for; refuse any but all of them, where all were handed out at once."""
    total = len(labels["labels"])
    if (mode is Mode.RELEASE or labels.meta["rounds"]) and set(wanted) - {total}:
        asked = ", ".join(map(str, wanted))
        raise ArtefactError(
            labels.path,
            f"it holds labels of {plural(total, 'query')}, and ε of {asked} is not theirs",
            "leave --queries out",
        )
    return check_queries(wanted or [total], total)


def _read_ledger(labels: Artefact, source: Artefact, votes: Votes, folder: Path) -> Ledger:
    """Read the ledger of these votes' private data; refuse one whose entries of LABELS are of other labels or votes.

    Raises ArtefactError.
    """
    if labels.meta["mode"] != Mode.RELEASE:
        raise PatebenchError("labels from a seed are no release, and no ledger knows them; leave out --ledger")
    ledger, own = Ledger.of(folder, records_of(source)), labels.meta.get("entries")
    entries = {each.key: each for each in ledger.entries}
    if not own or set(own) - entries.keys():
        raise ArtefactError(ledger.path, f"{labels.path} is a release, and it does not stand there", "give its ledger")
    same = {name: labels.meta[name] for name in ("mechanism", "parameters")}
    same |= {"number of teachers": votes.teachers, "partition": shards_of(source)}
    # A round has an entry of its own. On the secure path, each chunk of teachers enters all queries.
    chunks = len(own) if "ensemble" in labels.meta else 1
    rounds = [each["queries"] for each in labels.meta["rounds"]] or [len(labels["labels"])] * chunks
    expected = [{**same, "number of queries": queries} for queries in rounds]
    stored = [_stored(entries[key]) for key in own]
    if stored != expected:
        differing = [name for a, b in zip(stored, expected, strict=False) for name in a if a[name] != b[name]]
        what = f"another {differing[0]}" if differing else "other rounds"
        fault = f"its entry of {labels.path} has {what} than these labels and {source.path}"
        raise ArtefactError(ledger.path, fault, "give unchanged labels, and the votes that they were drawn from")
    # The last round's votes contain those of the rounds before; the secure path sees no votes, and stores none.
    if entries[own[-1]].votes not in (None, source.digest):
        fault = f"{labels.path} was drawn from other votes than {source.path}"
        raise ArtefactError(ledger.path, fault, "give the votes that it was drawn from")
    return ledger


def _stored(entry: Entry) -> dict[str, Any]:
    """Return what an entry of a ledger must have in common with the labels that were drawn."""
    return {
        "mechanism": entry.mechanism,
        "parameters": entry.parameters,
        "number of teachers": entry.ensemble,
        "partition": entry.spent.partition,
        "number of queries": entry.queries,
    }


def _together(labels: Artefact, ledger: Ledger, queries: Sequence[int], delta: float) -> list[Bound]:
    """Return what all draws from the same private data cost, where there are others beside these labels.

    With a limit they keep that, whatever was chosen on the way, at its δ if that is larger. Without one their sum holds
    only if all was planned beforehand, which nobody can prove.
    """
    if len(ledger.entries) == len(labels.meta["entries"]):
        return []
    limit = ledger.limit
    # Not their number: it depends on the order of jobs, hence on how long the teachers took to train.
    planned = "Mironov 2017, Proposition 1: all draws in the ledger, as if planned beforehand"
    kept = "Feldman & Zrnic 2021, section 3: the limit of all draws in the ledger"
    together = DirectAccountant(
        name="ledger",
        label="all releases together",
        kind=Kind.WORST_CASE,
        source=kept if limit else planned,
        epsilon=lambda T, delta: limit.budget if limit else spending.epsilon(ledger.spent, delta),
    )
    # The limit holds at its own δ, so at no smaller one.
    at = max(delta, limit.delta) if limit else delta
    return [replace(bound, publishable=limit is not None) for bound in together.bounds(queries, at)]


def _noise(mode: Mode, seed: int | None, stream: str | None) -> SanitisingNoise | None:
    """Where sanitised bounds draw their noise from; None: none is drawn."""
    if seed is None and stream is None:
        return None
    if mode is Mode.RELEASE:
        raise PatebenchError("these labels are a release, and bounds with noise from a seed are none; leave out --seed")
    if seed is None or stream is None:
        raise PatebenchError("sanitised bounds are drawn from a seed and a stream; give both, or neither")
    return seeded_noise(seed, stream)


def _whole_pool(
    labels: Artefact,
    made: Mechanism,
    votes: Votes,
    wanted: Sequence[int],
    delta: float,
    noise: SanitisingNoise | None,
) -> dict[str, Any]:
    """Bounds at the numbers of queries wanted, curves through many more, and what single teachers pay."""
    release = labels.meta["mode"] == Mode.RELEASE
    along = [] if release else spaced(votes.queries)
    bounds: list[Bound] = made.bounds(votes, wanted, delta, noise, along, discrete=release)
    if "budget" in labels.meta:
        bounds += _kept_budget(labels, made, votes, check_queries([*wanted, *along], votes.queries), delta)
    bounds = [bound.said_of(release) for bound in bounds]
    return {
        "bounds": [bound.to_json() for bound in bounds if bound.queries in wanted],
        "curves": [curve for curve in curves(bounds) if along and set(along) <= set(curve["queries"])],
        "teacher_costs": made.teacher_costs(votes, wanted, delta),
    }


def _kept_budget(labels: Artefact, made: Mechanism, votes: Votes, queries: Sequence[int], delta: float) -> list[Bound]:
    """What the labels' own budget promises, once it is seen that they keep it."""
    budget = labels.meta["budget"]
    cost = check_budget(labels.meta["mechanism"], made, votes.teachers, votes.classes)
    kept, asked = labels_within(cost, labels["labels"], budget["epsilon"], budget["delta"])
    if asked != budget["asked"] or not np.array_equal(kept, labels["labels"]):
        raise ArtefactError(labels.path, f"it does not keep its own budget of ε = {budget['epsilon']:g}")
    return budget_bounds(budget["epsilon"], queries, delta) if delta >= budget["delta"] else []


def spaced(queries: int, most: int = 40) -> list[int]:
    """Numbers of queries from 1 to all, evenly spaced in their logarithms but for rounding; fewer for small pools."""
    return sorted({round(T) for T in np.geomspace(1, queries, min(most, 2 + queries // 20))})


command = stage_command(
    run,
    file_option("votes", "The ensemble's votes, or the table of votes that was labelled."),
    table_options,
    file_option("labels", "The labels whose cost is stated."),
    file_option(
        "selected",
        "The queries of each round, in order; without, the whole pool was labelled.",
        needed=False,
        several=True,
    ),
    parameter_options(AccountParameters, "accounting"),
    click.option("--seed", type=click.IntRange(min=0), default=None, help="Base seed of sanitised bounds."),
    click.option("--stream", default=None, help="Name of their random stream."),
    file_option("ledger", "The folder of the ledgers, for a release.", needed=False),
    processes,
    file_option("out", "Where the bounds go."),
)
