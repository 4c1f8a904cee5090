"""The command `epsilon`: every bound on ε that a release of the votes in a file has."""

from collections.abc import Mapping
from pathlib import Path

import click

from patebench.calculator import show
from patebench.calculator.epsilon import epsilon
from patebench.stages import votes_file
from patebench.stages.command import FILE, stage_command
from patebench.stages.mechanism_options import MechanismCommand, answering
from patebench.stages.terminal import show_on_terminal


def run(
    *,
    file: Path,
    mechanism: str,
    parameters: Mapping[str, float],
    delta: float,
    queries: int | None,
    votes: bool,
    classes: int | None,
    sanitise: bool,
    release: bool,
    as_json: bool,
) -> None:
    """State every bound on ε of releasing labels for the votes in FILE (.npy, or votes.npz).

    FILE holds counts (queries × classes) or, with --votes, votes (teachers × queries). With --release only what holds
    for labels that are handed out is stated.
    """
    read = votes_file.read(file, votes, classes)
    result = epsilon(read, mechanism, parameters, delta, queries, sanitise, release)
    show_on_terminal(show.as_json(result) if as_json else show.account(result))


command = stage_command(
    run,
    click.argument("file", type=FILE),
    click.option("--queries", type=click.IntRange(min=1), default=None, help="Account for the first N [default: all]."),
    click.option("--votes", is_flag=True, help="FILE holds votes (teachers × queries) and not counts."),
    click.option("--classes", type=click.IntRange(min=2), default=None, help="Number of classes, with --votes."),
    click.option("--sanitise", is_flag=True, help="Also draw sanitised bounds: each draw is a release of its own."),
    answering,
    cls=MechanismCommand,
)
