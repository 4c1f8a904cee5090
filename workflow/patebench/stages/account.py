"""Stage `account`: compute every bound on ε for the labels in a file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import click
import numpy as np

from patebench.accounting import spending
from patebench.accounting.accountant import DirectAccountant, check_queries
from patebench.accounting.sanitised import SanitisingNoise
from patebench.accounting.sanitised import seeded as seeded_noise
from patebench.accounting.votes import Votes
from patebench.artefacts.reading import Selected, check_drawn_from, check_in_place
from patebench.artefacts.votes_file import read_source, report_sizes, table_options
from patebench.cli.command import SEED, OutputFile, processes, stage_command
from patebench.config.parameters import AccountParameters
from patebench.core.bound import Bound, Kind, curves
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.fields import show
from patebench.core.files import Artefact, read_arrays, write_json
from patebench.core.formats import LABELS, PARTITION_FACTS
from patebench.core.seeds import Mode
from patebench.core.text import plural
from patebench.data.partitions import changes_in_words
from patebench.mechanisms.base import (
    Mechanism,
    check_adaptive,
    check_releasable,
    cost_per_query,
    labels_within,
    mechanism_of,
)
from patebench.release.conditions import check_protects, check_size_of_delta
from patebench.release.ledger_file import Ledger, records_of, shards_of

#: Metadata of the labels that the file of bounds stores too.
_FACTS = ("votes", "mechanism", "parameters", "mode", "rounds", *PARTITION_FACTS)

#: Statement in the file of bounds for labels from a seed.
_SEEDED = (
    "The noise of these labels comes from a named seed. Anyone who knows the seed can remove the noise, so the labels "
    "are not a release and no ε of this file may be published for them. A worst-case ε is for labels with fresh noise."
)

#: Statement in the file of bounds for a release without its ledger.
_NO_LEDGER = (
    "No ledger was given. ε is the worst case for the mechanism, queries and number of teachers stored in the labels. "
    "It was not checked that the labels come from these votes. Other releases of the private data are not counted."
)

#: Further statement for labels from secure aggregation: a ledger contains the partition of every chunk.
_CHUNKS_NOT_CHECKED = (
    "The labels come from secure aggregation. Without a ledger, it was not checked that all chunks of teachers come "
    "from one partition, and a record could be in several shards. Therefore, no ε of this file may be published."
)

#: Text that states what ε protects if the votes have no partition.
_OF_TEACHER = "the votes of one teacher; which records these depend on is not known"


def run(
    *,
    votes: Annotated[Path, "Votes of the ensemble, or the table of votes that was labelled."],
    labels: Annotated[Path, "Labels for which ε is computed."],
    accounting: AccountParameters,
    out: Annotated[OutputFile, "Output file with the bounds."],
    seed: Annotated[int | None, "Base seed of sanitised bounds.", SEED] = None,
    stream: Annotated[str | None, "Name of the random stream of sanitised bounds."] = None,
    selected: Annotated[
        Sequence[Path], "Queries of each round, in order; leave out if the whole pool was labelled."
    ] = (),
    ledger: Annotated[Path | None, "Folder of the ledgers, for a release."] = None,
    classes: int | None = None,
    teachers: int | None = None,
) -> None:
    """Compute every bound on ε for the labels in a file.

    The file of labels states the mechanism, the queries, the budget and the rounds. Labels and votes must agree in the
    pool, the numbers of teachers and classes, the partition of the records, and whether teachers may abstain.

    For labels with noise from a seed, ε is computed for the first T queries, for each T given as --queries. Curves of ε
    over T are computed for figures. With --seed and --stream, sanitised bounds (data-dependent bounds with noise) are
    drawn as well. They have no curves, because each point of a curve would be a release.

    For a release, ε is stated for all queries together, with bounds that are valid for discrete noise. Without
    --ledger, other releases of the same private data are not counted, and the output says so; bounds for secure
    aggregation are then not publishable. With --ledger, the ledger must contain the release with the same settings.

    With --ledger, the total ε of all releases in the ledger is stated too. If the ledger has a limit, the limit is
    stated instead; without one, the total is stated only for several releases. Each release protects
    against some changes of the data, such as a replaced record. The total covers only the changes against which every
    release protects. If there is no such change, no total is stated.

    For queries selected in rounds, ε is stated for all queries together. Worst-case bounds are included only if they
    are valid for adaptive queries. Data-dependent bounds treat the queries as fixed in advance, and the output states
    this. Sanitised bounds are not available.
    """
    source, all_votes = read_source(votes, classes is not None, classes, teachers)
    report_sizes(source, all_votes)
    check_in_place(source)
    label_set = read_arrays(labels, LABELS)
    check_drawn_from(label_set, source, all_votes)
    labelled = label_set.arrays.get("queries", np.arange(len(label_set["labels"])))
    voted = source.arrays.get("queries", np.arange(all_votes.queries))
    if not label_set.meta["rounds"] and not np.array_equal(labelled, voted):
        raise ArtefactError(
            labels, f"its queries differ from those of {votes}", "give the votes from which the labels were drawn"
        )
    mode, mechanism = Mode(label_set.meta["mode"]), mechanism_of(label_set.meta)
    release = mode is Mode.RELEASE
    if release:
        check_releasable(label_set.meta["mechanism"], type(mechanism))
        check_protects(label_set, mode)
    check_size_of_delta(mode, all_votes.teachers, accounting.delta, votes=source)
    numbers = _query_numbers(label_set, accounting.queries)
    if label_set.meta["rounds"]:
        rounds = _read_rounds(label_set, selected, source)
        bounds = mechanism.bounds(rounds.votes(all_votes), numbers, accounting.delta, discrete=release, adaptive=True)
        results: dict[str, Any] = {"curves": [], "teacher_costs": []}
        results["bounds"] = [bound.state_for(release).to_json() for bound in bounds]
    else:
        if selected:
            raise ArtefactError(
                labels,
                "it contains labels of the whole pool, but --selected is only for labels of rounds",
                "leave --selected out",
            )
        if (seed is None) != (stream is None):
            line = "only one of --seed and --stream is given; give both to draw sanitised bounds, or neither"
            raise PatebenchError(line)
        noise = None if seed is None or stream is None else seeded_noise(seed, stream)
        if noise is not None and release:
            line = (
                "sanitised bounds of a release need secret noise, not noise from a seed; leave --seed and --stream out"
            )
            raise PatebenchError(line)
        results = _bound_whole_pool(label_set, mechanism, all_votes, numbers, accounting.delta, noise)
    if ledger is not None:
        entered = _read_ledger(label_set, source, all_votes, ledger)
        # A limit is stated even for the first release, so that the file does not depend on the order of jobs.
        if entered.limit or len(entered.entries) > len(label_set.meta["entries"]):
            results["ledger_protects"] = spending.common_changes(entered.spent)
            results["bounds"] += [bound.to_json() for bound in _total_bounds(entered, numbers, accounting.delta)]
    if not release:
        results["statement"] = _SEEDED
    elif ledger is None:
        results["statement"] = _NO_LEDGER
        if "ensemble" in label_set.meta:
            results["statement"] += f" {_CHUNKS_NOT_CHECKED}"
            results["bounds"] = [{**bound, "publishable": False} for bound in results["bounds"]]
        click.echo(f"{labels}: {results['statement']}", err=True)
    payload: dict[str, Any] = {name: label_set.meta[name] for name in _FACTS}
    payload |= {"teachers": all_votes.teachers, "protection": payload["protection"] or _OF_TEACHER}
    payload |= {"labels": label_set.digest, "delta": accounting.delta, "queries": numbers}
    write_json(out, "account", {**payload, **results})


def _read_rounds(labels: Artefact, selected: Sequence[Path], votes: Artefact) -> Selected:
    """Return the queries of all rounds from the files `selected`, one file per round, first round first.

    Raise ArtefactError if `labels` were drawn in other rounds, or if `votes` are not on these queries. Raise
    PatebenchError if the mechanism of the labels does not support adaptive queries.
    """
    check_adaptive(labels.meta["mechanism"], mechanism_of(labels.meta))
    if not selected:
        raise ArtefactError(
            labels.path,
            "its queries were selected in rounds, but --selected is missing",
            "give --selected with a file of queries, once for each round, first round first",
        )
    rounds = Selected.read(selected, votes)
    if rounds.facts()["queries_files"] != labels.meta["queries_files"]:
        fix = "give the queries of the rounds in which the labels were drawn"  # may be a release: do not draw it again
        fault = f"its labels are for other queries than those in {', '.join(map(str, selected))}"
        raise ArtefactError(labels.path, fault, fix)
    return rounds


def _query_numbers(labels: Artefact, requested: Sequence[int]) -> list[int]:
    """Return the numbers T such that ε is computed for the first T queries.

    These are the numbers in `requested` or, if `requested` is empty, only the number of all queries. The labels of a
    release and labels drawn in rounds are published together, so only the number of all queries is allowed: raise
    ArtefactError if `requested` contains another number.
    """
    total = len(labels["labels"])
    if (labels.meta["mode"] == Mode.RELEASE or labels.meta["rounds"]) and set(requested) - {total}:
        asked = ", ".join(map(str, requested))
        raise ArtefactError(
            labels.path,
            f"its labels of {plural(total, 'query')} are published together, so ε is stated only for all of them, but"
            f" --queries is {asked}",
            "leave --queries out",
        )
    return check_queries(requested or [total], total)


def _read_ledger(labels: Artefact, source: Artefact, votes: Votes, folder: Path) -> Ledger:
    """Return the ledger in `folder` that contains the release `labels`; `source` is the file of `votes`.

    Raise PatebenchError in three cases:

    - the noise of `labels` was drawn from a seed, so `labels` are not a release;
    - the ledger does not contain the release;
    - the ledger states another mechanism, parameters, partition, votes, number of teachers, number of queries or number
      of rounds than `labels` and `votes`.
    """
    if labels.meta["mode"] != Mode.RELEASE:
        raise PatebenchError("these labels were drawn with a seed, so they are in no ledger; leave out --ledger")
    ledger, own = Ledger.of(folder, records_of(source)), labels.meta.get("entries")
    entries = {entry.key: entry for entry in ledger.entries}
    if not own or set(own) - entries.keys():
        raise ArtefactError(
            ledger.path,
            f"this ledger has no entry for the release {labels.path}",
            "give the same --ledger as for this release",
        )
    same = {name: labels.meta[name] for name in ("mechanism", "parameters")}
    same |= {"number of teachers": votes.teachers, "partition": shards_of(source)}
    # Each round has its own entry. With secure aggregation, each chunk of teachers enters all queries.
    chunks = len(own) if "ensemble" in labels.meta else 1
    rounds = [facts["queries"] for facts in labels.meta["rounds"]] or [len(labels["labels"])] * chunks
    expected = [{**same, "number of queries": queries} for queries in rounds]
    stored = [
        {
            "mechanism": entry.mechanism,
            "parameters": entry.parameters,
            "number of teachers": entry.ensemble,
            "partition": entry.spent.partition,
            "number of queries": entry.queries,
        }
        for entry in (entries[key] for key in own)
    ]
    if stored != expected:
        differing = [
            (name, a[name], b[name]) for a, b in zip(stored, expected, strict=False) for name in a if a[name] != b[name]
        ]
        what, entered, own_value = (*differing, ("number of rounds", len(stored), len(expected)))[0]
        values = "" if what == "partition" else f" ({show(entered)} instead of {show(own_value)})"
        raise ArtefactError(
            ledger.path,
            f"its entry for {labels.path} differs in the {what} from these labels and the votes {source.path}{values}",
            "give the unchanged labels and the votes from which they were drawn",
        )
    # The last round's votes contain the votes of earlier rounds. Secure aggregation stores no digest of the votes.
    if entries[own[-1]].votes not in (None, source.digest):
        raise ArtefactError(
            ledger.path,
            f"according to this ledger, {labels.path} was drawn from other votes than {source.path}",
            "give the votes from which the labels were drawn",
        )
    return ledger


def _total_bounds(ledger: Ledger, queries: Sequence[int], delta: float) -> list[Bound]:
    """Return the total ε of all releases in `ledger` as bounds: one for each number in `queries`, all with the same ε.

    If the ledger has a limit, the total ε is the ε of the limit. It is stated at `delta` or at the δ of the limit,
    whichever is larger. If the ledger has no limit, the total ε is that of the composition of all releases, at `delta`.

    Each release protects against some changes of the data, such as a replaced record. The total ε covers only the
    changes against which every release protects. If there is no such change, return [].
    """
    changes = spending.common_changes(ledger.spent)
    if not changes:
        click.echo(f"{ledger.path}: no total ε, because no change of the data is protected by all draws", err=True)
        return []
    # The limit is valid for adaptively chosen draws. Without a limit, the sum of all costs is valid only for draws that
    # were planned in advance. Nobody can prove this, so the bound is not publishable.
    limit = ledger.limit
    # `source` omits the number of draws, which depends on the order of jobs, hence on private training times.
    planned = "Mironov 2017, Proposition 1: all draws in the ledger, as if planned beforehand"
    kept = "Feldman & Zrnic 2021, section 3: the limit of all draws in the ledger"
    accountant = DirectAccountant(
        name="ledger",
        label="all releases together",
        kind=Kind.WORST_CASE,
        source=f"{kept if limit else planned}, for {changes_in_words(changes)}",
        epsilon=lambda T, delta: limit.budget if limit else spending.epsilon(ledger.spent, delta),
    )
    # The limit is not valid at a δ smaller than its own.
    at = max(delta, limit.delta) if limit else delta
    return [replace(bound, publishable=limit is not None) for bound in accountant.bounds(queries, at)]


def _bound_whole_pool(
    labels: Artefact,
    mechanism: Mechanism,
    votes: Votes,
    numbers: Sequence[int],
    delta: float,
    noise: SanitisingNoise | None,
) -> dict[str, Any]:
    """Return a dict with `bounds`, `curves` and `teacher_costs`, for labels of the whole pool.

    `bounds` on ε and `teacher_costs` (ε of individual teachers) are for the first T queries, for each T in `numbers`.
    `curves` contains curves of ε over T; for a release, it is empty. Sanitised bounds (data-dependent bounds with
    noise) are drawn only if `noise` is given.
    """
    release = labels.meta["mode"] == Mode.RELEASE
    along: list[int] = []
    if not release:
        # At most 40 numbers from 1 on, evenly spaced on a logarithmic scale.
        along = sorted({round(T) for T in np.geomspace(1, votes.queries, min(40, 2 + votes.queries // 20))})
    bounds: list[Bound] = mechanism.bounds(votes, numbers, delta, noise, along, discrete=release)
    if "budget" in labels.meta:
        bounds += _budget_bounds(labels, mechanism, votes, check_queries([*numbers, *along], votes.queries), delta)
    bounds = [bound.state_for(release) for bound in bounds]
    return {
        "bounds": [bound.to_json() for bound in bounds if bound.queries in numbers],
        "curves": [curve for curve in curves(bounds) if along and set(along) <= set(curve["queries"])],
        "teacher_costs": mechanism.teacher_costs(votes, numbers, delta),
    }


def _budget_bounds(
    labels: Artefact, mechanism: Mechanism, votes: Votes, queries: Sequence[int], delta: float
) -> list[Bound]:
    """Return the ε budget of `labels` as a bound for each number of queries in `queries`.

    Return [] if `delta` is smaller than the δ of the budget, because the budget is not valid at a smaller δ. Raise
    ArtefactError if the answered queries are not exactly those that the budget allows.
    """
    budget = labels.meta["budget"]
    cost = cost_per_query(labels.meta["mechanism"], mechanism, votes.teachers, votes.classes)
    kept, asked = labels_within(cost, labels["labels"], budget["epsilon"], budget["delta"])
    if asked != budget["asked"] or not np.array_equal(kept, labels["labels"]):
        raise ArtefactError(
            labels.path,
            f"its answered queries are not those that its budget of ε = {budget['epsilon']:g} allows",
            "give the unchanged file of the labels",
        )
    guaranteed = DirectAccountant(
        name="rdp-filter",
        label="Rényi filter",
        kind=Kind.WORST_CASE,
        source="Feldman & Zrnic 2021, section 3; Lécuyer 2021: the budget that the release was stopped at",
        epsilon=lambda T, delta: budget["epsilon"],
    )
    return guaranteed.bounds(queries, delta) if delta >= budget["delta"] else []


command = stage_command(run, *table_options, processes)
