"""Command `calibrate`: find the smallest noise, or the largest number of queries, for a target (ε, δ)."""

from collections.abc import Mapping

import click

from patebench.calculator import show
from patebench.calculator.calculations import solve
from patebench.cli.command import stage_command
from patebench.cli.mechanism_options import MechanismCommand, answering
from patebench.cli.terminal import show_on_terminal
from patebench.core.seeds import Mode
from patebench.release.conditions import check_size_of_delta


def run(
    *,
    mechanism: str,
    parameters: Mapping[str, float],
    epsilon: float,
    delta: float,
    queries: int | None,
    classes: int | None,
    teachers: int | None,
    release: bool,
    as_json: bool,
) -> None:
    """Find the smallest noise for a number of queries, or the largest number of queries, for a target (ε, δ).

    With --queries, the noise is found: leave out its parameter. Without --queries, their largest number is found: give
    all parameters of the mechanism. With --release, use the
    bounds for released labels (discrete noise); otherwise those for continuous noise.
    """
    check_size_of_delta(Mode.RELEASE if release else Mode.SEEDED, teachers, delta)
    result = solve(
        mechanism=mechanism, parameters=parameters, epsilon=epsilon, delta=delta, queries=queries, classes=classes,
        teachers=teachers, release=release,
    )  # fmt: skip
    show_on_terminal(show.as_json(result) if as_json else show.calibration_table(result))


_MANY = click.IntRange(min=1)

command = stage_command(
    run,
    click.option("--epsilon", type=float, required=True, help="Target worst-case ε."),
    click.option("--queries", type=_MANY, default=None, help="Number of queries for which to find the noise."),
    click.option(
        "--classes", type=click.IntRange(min=2), default=None, help="Number of classes, if the mechanism needs it."
    ),
    click.option("--teachers", type=_MANY, default=None, help="Number of teachers, if the mechanism needs it."),
    answering,
    cls=MechanismCommand,
)
