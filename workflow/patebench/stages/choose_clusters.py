"""Command `choose_clusters`: choose the number of clusters to use as queries for teachers with one vote per record."""

import json
from pathlib import Path

import click

from patebench.cli.command import file_option, stage_command, threads
from patebench.cli.terminal import show_on_terminal, table_of
from patebench.core.files import read_arrays
from patebench.core.formats import FEATURES
from patebench.core.text import plural


def run(*, features: Path, teachers: int, sigma: float, classes: int, as_json: bool) -> None:
    """Choose the number of clusters to use as queries, for teachers that have one vote each.

    The choice depends only on public features, the number given as --teachers and the noise. It reads no votes and
    costs no privacy. Give the number of teachers in the configuration, not the number of private records: that number
    is private, unless neighbouring data sets differ by a replaced record (partition iid).
    """
    from patebench.features.query_clusters import HIDDEN, LEAST_VOTES, choose

    choice = choose(read_arrays(features, FEATURES)["vectors"], teachers=teachers, sigma=sigma, classes=classes)
    if as_json:
        show_on_terminal(json.dumps(choice.to_json(), indent=1, allow_nan=False))
        return
    headings = ("clusters", "fewest votes", "median", f"of the pool below {LEAST_VOTES:g}σ votes")
    rows = [
        (f"{row.clusters}", f"{row.fewest_votes:,.0f}", f"{row.median_votes:,.0f}", f"{row.hidden:.1%}")
        for row in choice.looked_at
    ]
    show_on_terminal(table_of(headings, rows, numbers=4))
    advice = f"Use {plural(choice.clusters, 'cluster')}"
    if choice.enough:
        click.echo(f"{advice}: noise hides the label for at most {HIDDEN:.0%} of the pool.")
    else:
        click.echo(f"{advice}, but expect wrong labels: σ = {choice.sigma:g} is too large for {teachers} teachers.")


command = stage_command(
    run,
    file_option("features", "Features of the pool."),
    click.option(
        "--teachers",
        type=click.IntRange(min=1),
        required=True,
        help="Number of teachers in the configuration; not a count of private records.",
    ),
    click.option("--sigma", type=float, required=True, help="Standard deviation of the noise on each count."),
    click.option("--classes", type=click.IntRange(min=2), required=True, help="Number of classes."),
    threads,
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object in place of the table."),
)
