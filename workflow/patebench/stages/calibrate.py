"""Command `calibrate`: find the smallest noise, or the largest number of queries, for a target (ε, δ)."""

from collections.abc import Mapping
from typing import Annotated

from patebench.calculator import show
from patebench.calculator.calculations import solve
from patebench.cli.command import CLASSES, COUNT, show_on_terminal, stage_command
from patebench.cli.mechanism_options import MechanismCommand, answering
from patebench.core.seeds import Mode
from patebench.release.conditions import check_size_of_delta


def run(
    *,
    mechanism: str,
    parameters: Mapping[str, float],
    epsilon: Annotated[float, "Target worst-case ε."],
    delta: float,
    queries: Annotated[int | None, "Number of queries for which to find the noise.", COUNT],
    classes: Annotated[int | None, "Number of classes, if the mechanism needs it.", CLASSES],
    teachers: Annotated[int | None, "Number of teachers, if the mechanism needs it.", COUNT],
    release: bool,
    as_json: bool,
) -> None:
    """Find the smallest noise for a number of queries, or the largest number of queries, for a target (ε, δ).

    To find the noise, give --queries and leave out one parameter of the mechanism. To find the largest number of
    queries, leave out --queries and give all parameters. With --release, the bounds for released labels (discrete
    noise) are used; otherwise those for continuous noise. The noise is for unweighted votes. Teachers of the model
    feature-votes cast weighted votes, which need √2 times as much Gaussian noise, and several times as much Laplace
    noise.
    """
    check_size_of_delta(Mode.RELEASE if release else Mode.SEEDED, teachers, delta)
    result = solve(
        mechanism=mechanism, parameters=parameters, epsilon=epsilon, delta=delta, queries=queries, classes=classes,
        teachers=teachers, release=release,
    )  # fmt: skip
    show_on_terminal(show.as_json(result) if as_json else show.calibration_table(result))


command = stage_command(run, *answering, cls=MechanismCommand)
