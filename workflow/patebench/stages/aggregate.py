"""The stage `aggregate`: votes in, labels out, for the whole pool or for the queries that a round selected."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Votes
from patebench.artefacts.reading import OF_ROUNDS, Selected, check_distinct, partition_facts
from patebench.artefacts.votes_file import read_source, say_what_was_read, table_options
from patebench.cli.command import file_option, ledgered, mechanism, seeded_or_release, stage_command
from patebench.cli.mechanism_options import MechanismCommand
from patebench.core.entropy import Draws
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, write_arrays
from patebench.core.formats import LABELS, PARTITION_FACTS
from patebench.core.seeds import Mode
from patebench.mechanisms.base import (
    NO_ANSWER,
    Mechanism,
    check_abstentions,
    check_adaptive,
    check_budget,
    labels_within,
    plain,
)
from patebench.release.conditions import (
    check_protects,
    check_size_of_delta,
    drawn_mechanism,
    of_table,
    origin,
    refuse_second_release,
)
from patebench.release.ledger_file import Place

Arrays = dict[str, NDArray[Any]]
Facts = dict[str, Any]


def run(
    *,
    votes: Path,
    mechanism: str,
    parameters: Mapping[str, float],
    out: Path,
    seed: int | None = None,
    stream: str | None = None,
    release: bool = False,
    budget: float | None = None,
    delta: float | None = None,
    selected: Path | None = None,
    earlier: Path | None = None,
    ledger: Path | None = None,
    ledger_budget: float | None = None,
    ledger_delta: float | None = None,
    private: str | None = None,
    classes: int | None = None,
    teachers: int | None = None,
) -> None:
    """Label queries by a mechanism at one noise setting: the whole pool, or the queries that a round selected.

    From seed and stream the labels can be drawn again: they are for experiments. With --release the noise is discrete
    and the operating system's; that is done once, so nothing is written over, and it stands in the ledger of the
    private data before it is done. With a budget ε at δ, queries are put in
    order until the next one might exceed it.

    Labels of selected queries come after those of earlier rounds. Where the teachers give none, the student's own label
    is kept if the mechanism's public rule says so.
    """
    made, draws = drawn_mechanism(mechanism, parameters, release, seed, stream)
    place = Place.of(draws.mode, ledger, ledger_budget, ledger_delta, private)
    refuse_second_release(out, draws.mode)
    source, everything = read_source(votes, classes is not None, classes, teachers)
    say_what_was_read(source, everything)
    check_protects(source, draws.mode)
    check_abstentions(made, everything)
    check_size_of_delta(draws.mode, everything.teachers, delta, ledger_delta, votes=source)
    facts: Facts = {
        "votes": origin(source, draws.mode),
        "pool": source.meta["pool"],
        "classes": everything.classes,
        "mechanism": mechanism,
        "parameters": plain(made.parameters()),
        "mode": str(draws.mode),
        "rounds": [],
        "teachers": everything.teachers,
        "abstentions": everything.abstentions,
        **partition_facts(source),
        **of_table(made, source),
    }
    write_down = partial(place.write_down, source, out, mechanism, made)
    if selected is None:
        if earlier is not None:
            raise PatebenchError("earlier labels go with queries that a round selected; give --selected too")
        if "queries_files" in source.meta:
            raise ArtefactError(votes, "it holds votes on what rounds selected", "give the --selected of the last one")
        arrays, kept = _whole_pool(mechanism, made, everything, draws, _budget(budget, delta), write_down)
        facts |= kept
        if "queries" in source.arrays:
            arrays["queries"] = source["queries"]
    else:
        check_adaptive(mechanism, made)
        if budget is not None:
            raise PatebenchError("queries that a round selected have no budget of their own; leave out --budget")
        queries = Selected.read([selected], source)
        before = _before(earlier, queries.files[0], source, facts)
        if before is not None and draws.mode is Mode.RELEASE:
            place.check_same_shards(source, before)
        arrays, kept = _selected(made, queries, everything, draws, write_down)
        arrays, facts = _after(before, arrays, facts | kept | queries.facts())
    write_arrays(out, LABELS, arrays, facts)


def _budget(epsilon: float | None, delta: float | None) -> tuple[float, float] | None:
    if epsilon is None:
        if delta is not None:
            raise PatebenchError("a δ alone limits nothing; give --budget with --delta")
        return None
    if delta is None:
        raise PatebenchError("a budget is an ε at a δ; give --delta with --budget")
    return epsilon, delta


def _whole_pool(
    name: str,
    made: Mechanism,
    votes: Votes,
    draws: Draws,
    budget: tuple[float, float] | None,
    write_down: Callable[..., list[str]],
) -> tuple[Arrays, Facts]:
    """What is released for the whole pool, once it is written down, and the facts of its budget."""
    query = check_budget(name, made, votes.teachers, votes.classes) if budget else None
    entries = write_down(votes, budget=budget)
    arrays = made.released(votes, draws.source())
    if budget is None or query is None:
        return arrays, {"entries": entries}
    arrays["labels"], put = labels_within(query, arrays["labels"], *budget)
    if "reports" in arrays:
        arrays["reports"][:, put:] = NO_ANSWER
    return arrays, {"entries": entries, "budget": {"epsilon": budget[0], "delta": budget[1], "asked": put}}


def _selected(
    made: Mechanism, selected: Selected, votes: Votes, draws: Draws, write_down: Callable[..., list[str]]
) -> tuple[Arrays, Facts]:
    """Labels of selected queries, once they are written down; `kept` says which are the student's own."""
    chosen = selected.votes(votes)
    entries = write_down(chosen, adaptive=True)
    shown = made.released(chosen, draws.source())
    answered = shown["labels"]
    own = np.where(answered == NO_ANSWER, made.student_labels(chosen), NO_ANSWER)
    arrays = {"labels": np.maximum(answered, own), "queries": selected.positions, "kept": own != NO_ANSWER}
    arrays |= {name: shown[name] for name in ("noisy_counts",) if name in shown}
    return arrays, {"entries": entries}


def _before(earlier: Path | None, selected: Artefact, votes: Artefact, facts: Facts) -> Artefact | None:
    """The labels of the rounds before, if there were any: by the same mechanism from votes of the same teachers.

    Those are the same votes, or where each round has votes of its own, the ones that these came after.
    """
    before = None if earlier is None else read_arrays(earlier, LABELS)
    if selected.meta["labels"] != (before.digest if before else None):
        raise ArtefactError(selected.path, f"it was not selected after {earlier or 'no labels at all'}", OF_ROUNDS)
    asked = votes.meta.get("queries_files")
    if asked is not None and asked[:-1] != (before.meta["queries_files"] if before else []):
        raise ArtefactError(votes.path, f"it holds votes of other rounds than {earlier or selected.path}", OF_ROUNDS)
    if before is not None:
        same = ("votes", "mechanism", "parameters", "mode", "teachers", "abstentions", *PARTITION_FACTS)
        expected = {entry: facts[entry] for entry in same}
        if asked is not None and expected["votes"] is not None:
            expected["votes"] = votes.meta["earlier_votes"]
        for entry, value in expected.items():
            before.require(entry, value, str(selected.path))
        check_distinct(np.concatenate([before["queries"], selected["queries"]]), selected.path)
    return before


def _after(before: Artefact | None, arrays: Arrays, facts: Facts) -> tuple[Arrays, Facts]:
    """All rounds so far: those before come first."""
    if before is None:
        return arrays, facts
    joined = {name: np.concatenate([before[name], array]) for name, array in arrays.items()}
    so_far = {name: before.meta[name] + facts[name] for name in ("rounds", "queries_files", "entries")}
    return joined, facts | so_far | {"earlier": before.digest}


command = stage_command(
    run,
    file_option("votes", "The ensemble's votes, or a table of votes of your own."),
    table_options,
    file_option("selected", "The queries of this round; without, the whole pool is labelled.", needed=False),
    file_option("earlier", "Labels of the rounds before, if any.", needed=False),
    mechanism,
    click.option("--budget", type=float, default=None, help="Stop answering before this ε (at --delta) is spent."),
    click.option("--delta", type=float, default=None, help="δ of the budget."),
    seeded_or_release,
    ledgered,
    file_option("out", "Where the labels go."),
    cls=MechanismCommand,
)
