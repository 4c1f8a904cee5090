"""The command `choose_clusters`: how many clusters of a pool to ask about, where each record has one vote."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patebench.cli.command import file_option, stage_command, threads
from patebench.cli.terminal import show_on_terminal
from patebench.core.files import read_arrays
from patebench.core.formats import FEATURES
from patebench.core.text import plural

if TYPE_CHECKING:
    from rich.console import RenderableType

    from patebench.features.query_clusters import Choice


def run(*, features: Path, teachers: int, sigma: float, classes: int, as_json: bool) -> None:
    """Choose how many clusters to ask about: a number of --queries for teachers with one vote each.

    It looks at public features, at the declared number of teachers and at the noise, and at no vote: the choice costs
    no privacy. How many private records there are is private itself, unless neighbouring data sets replace a record
    (iid): give the number of teachers that the configuration declares, whatever the records are.
    """
    from patebench.features.query_clusters import choose

    found = choose(read_arrays(features, FEATURES)["vectors"], teachers=teachers, sigma=sigma, classes=classes)
    show_on_terminal(json.dumps(found.to_json(), indent=1, allow_nan=False) if as_json else _shown(found))


def _shown(choice: "Choice") -> "RenderableType":
    from rich import box
    from rich.console import Group
    from rich.table import Table

    from patebench.features.query_clusters import HIDDEN, LEAST_VOTES

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("clusters", "fewest votes", "median", f"of the pool below {LEAST_VOTES:g}σ votes"):
        table.add_column(name, justify="right")
    for each in choice.looked_at:
        cells = (f"{each.clusters}", f"{each.fewest_votes:,.0f}", f"{each.median_votes:,.0f}", f"{each.hidden:.1%}")
        table.add_row(*cells)
    said = f"Ask about {plural(choice.clusters, 'cluster')}"
    if choice.enough:
        return Group(table, f"{said}: no more than {HIDDEN:.0%} of the pool is where noise hides the label.")
    return Group(table, f"{said}, and expect wrong labels: σ = {choice.sigma:g} is too much for so few teachers.")


command = stage_command(
    run,
    file_option("features", "Features of the pool."),
    click.option(
        "--teachers",
        type=click.IntRange(min=1),
        required=True,
        help="Number of teachers in the configuration; not a count of private records.",
    ),
    click.option("--sigma", type=float, required=True, help="The standard deviation of the noise on each count."),
    click.option("--classes", type=click.IntRange(min=2), required=True, help="The number of classes."),
    threads,
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object in place of the table."),
)
