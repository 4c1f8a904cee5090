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
from patebench.core.formats import LABELS, QUERIES
from patebench.core.seeds import Mode
from patebench.mechanisms.base import (
    NO_ANSWER,
    Mechanism,
    check_adaptive,
    check_budget,
    check_releasable,
    make_mechanism,
    plain,
)
from patebench.mechanisms.budget import labels_within
from patebench.stages.command import file_option, mechanism, seeded_or_release, stage_command
from patebench.stages.reading import (
    Selected,
    check_distinct,
    origin,
    read_votes,
    refuse_budget_and_release,
    refuse_second_release,
)

Arrays = dict[str, NDArray[Any]]


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
    draws = Draws.of(release, seed, stream)
    made = make_mechanism(mechanism, parameters)
    if draws.mode is Mode.RELEASE:
        check_releasable(mechanism, type(made))
    refuse_second_release(out, draws.mode)
    source, everything = read_votes(votes)
    facts = {
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
        round_ = Selected.read([selected], source)
        arrays = _selected(made, round_, everything, draws)
        facts |= {"rounds": round_.rounds, "queries_files": round_.digests}
        if (before := _earlier(earlier, selected, facts)) is not None:
            arrays, facts = _after(before, arrays, facts, selected)
    write_arrays(out, LABELS, arrays, facts)


def _whole_pool(
    name: str, made: Mechanism, votes: Votes, draws: Draws, budget: float | None, delta: float | None
) -> tuple[Arrays, dict[str, Any]]:
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


def _earlier(path: Path | None, selected: Path, facts: Mapping[str, Any]) -> Artefact | None:
    """The labels of the rounds before; by the same mechanism from the same votes, and what the queries came after."""
    earlier = None if path is None else read_arrays(path, LABELS)
    if read_arrays(selected, QUERIES).meta["labels"] != (earlier.digest if earlier else None):
        mend = "pass the files of one sequence of rounds, or run snakemake again"
        raise ArtefactError(selected, f"it was not selected after {path or 'no labels at all'}", mend)
    if earlier is None:
        return None
    for entry in ("votes", "mechanism", "parameters"):
        earlier.require(entry, facts[entry], str(selected))
    return earlier


def _after(
    earlier: Artefact, arrays: Arrays, facts: Mapping[str, Any], selected: Path
) -> tuple[Arrays, dict[str, Any]]:
    """All rounds so far."""
    joined = {name: np.concatenate([earlier[name], array]) for name, array in arrays.items()}
    check_distinct(joined["queries"], selected)
    so_far = {name: earlier.meta[name] + facts[name] for name in ("rounds", "queries_files")}
    return joined, {**facts, **so_far, "earlier": earlier.digest}


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
