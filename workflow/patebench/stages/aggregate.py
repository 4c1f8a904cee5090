"""The stage `aggregate`: votes in, labels out, for the whole pool or for the queries that a round selected."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Votes
from patebench.core.entropy import Draws
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, write_arrays
from patebench.core.formats import LABELS
from patebench.mechanisms.base import NO_ANSWER, Mechanism, check_adaptive, check_budget, plain
from patebench.mechanisms.budget import labels_within
from patebench.stages.command import file_option, mechanism, seeded_or_release, stage_command
from patebench.stages.reading import Selected, check_distinct, read_votes
from patebench.stages.releases import drawn_mechanism, origin, refuse_budget_and_release, refuse_second_release

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
) -> None:
    """Label queries by a mechanism at one noise setting: the whole pool, or the queries that a round selected.

    From seed and stream the labels can be drawn again: they are for experiments. With --release the noise is discrete
    and the operating system's; that is done once, so nothing is written over. With a budget ε at δ, queries are put in
    order until the next one might exceed it.

    Labels of selected queries come after those of earlier rounds. Where the teachers give none, the student's own label
    is kept if the mechanism's public rule says so.
    """
    made, draws = drawn_mechanism(mechanism, parameters, release, seed, stream)
    refuse_second_release(out, draws.mode)
    source, everything = read_votes(votes)
    facts: Facts = {
        "votes": origin(source, draws.mode),
        "pool": source.meta["pool"],
        "classes": everything.classes,
        "mechanism": mechanism,
        "parameters": plain(made.parameters()),
        "mode": str(draws.mode),
        "rounds": [],
    }
    if selected is None:
        if earlier is not None:
            raise PatebenchError("earlier labels go with queries that a round selected; give --selected too")
        arrays, kept = _whole_pool(mechanism, made, everything, draws, budget, delta)
        facts |= kept
    else:
        check_adaptive(mechanism, made)
        refuse_budget_and_release(budget, draws.mode)
        queries = Selected.read([selected], source)
        arrays = _selected(made, queries, everything, draws)
        arrays, facts = _after(earlier, queries.files[0], arrays, facts | queries.facts())
    write_arrays(out, LABELS, arrays, facts)


def _whole_pool(
    name: str, made: Mechanism, votes: Votes, draws: Draws, budget: float | None, delta: float | None
) -> tuple[Arrays, Facts]:
    """What is released for the whole pool, and the facts of its budget."""
    arrays = made.released(votes, draws.source())
    if budget is None:
        return arrays, {}
    cost = check_budget(name, made, votes.teachers, votes.classes)
    arrays["labels"], put = labels_within(cost, arrays["labels"], budget, delta)
    if "reports" in arrays:
        arrays["reports"][:, put:] = NO_ANSWER
    return arrays, {"budget": {"epsilon": budget, "delta": delta, "asked": put}}


def _selected(made: Mechanism, selected: Selected, votes: Votes, draws: Draws) -> Arrays:
    """Labels of selected queries; `kept` says which are the student's own."""
    chosen = selected.votes(votes)
    answered = made.release(chosen, draws.source())
    own = np.where(answered == NO_ANSWER, made.student_labels(chosen), NO_ANSWER)
    return {"labels": np.maximum(answered, own), "queries": selected.positions, "kept": own != NO_ANSWER}


def _after(earlier: Path | None, selected: Artefact, arrays: Arrays, facts: Facts) -> tuple[Arrays, Facts]:
    """All rounds so far: those before come first, by the same mechanism from the same votes, if there were any."""
    before = None if earlier is None else read_arrays(earlier, LABELS)
    if selected.meta["labels"] != (before.digest if before else None):
        mend = "pass the files of one sequence of rounds, or run snakemake again"
        raise ArtefactError(selected.path, f"it was not selected after {earlier or 'no labels at all'}", mend)
    if before is None:
        return arrays, facts
    for entry in ("votes", "mechanism", "parameters"):
        before.require(entry, facts[entry], str(selected.path))
    joined = {name: np.concatenate([before[name], array]) for name, array in arrays.items()}
    check_distinct(joined["queries"], selected.path)
    so_far = {name: before.meta[name] + facts[name] for name in ("rounds", "queries_files")}
    return joined, facts | so_far | {"earlier": before.digest}


command = stage_command(
    run,
    file_option("votes", "The ensemble's votes."),
    file_option("selected", "The queries of this round; without, the whole pool is labelled.", needed=False),
    file_option("earlier", "Labels of the rounds before, if any.", needed=False),
    mechanism,
    click.option("--budget", type=float, default=None, help="Stop answering before this ε (at --delta) is spent."),
    click.option("--delta", type=float, default=None, help="δ of the budget."),
    seeded_or_release,
    file_option("out", "Where the labels go."),
)
