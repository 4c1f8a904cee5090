"""Command `choose_clusters`: choose into how many clusters the pool is divided, to query one label per cluster."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import click

from patebench.cli.command import CLASSES, COUNT, Json, show_on_terminal, stage_command, table_of, threads
from patebench.core.files import read_arrays
from patebench.core.formats import FEATURES
from patebench.core.text import plural


def run(
    *,
    features: Annotated[Path, "Features of the pool."],
    teachers: Annotated[int, "Number of teachers in the configuration; not a count of private records.", COUNT],
    sigma: Annotated[float, "Standard deviation of the noise on each count."],
    classes: Annotated[int, "Number of classes.", CLASSES],
    as_json: Json,
) -> None:
    """Choose into how many clusters the pool is divided, to query one label per cluster.

    Each teacher votes on one cluster. With more clusters, each cluster gets fewer votes, so noise makes more labels
    wrong. The result is the largest number of clusters for which few labels of the pool are wrong. If labels are often
    wrong for all numbers of clusters, the result is --classes.

    The choice depends only on public features, --teachers and the noise, so it costs no privacy. If every record is a
    teacher, do not count the records for --teachers, because their number may be private: give the number of teachers
    that the configuration states.
    """
    from patebench.features.query_clusters import HIDDEN, LEAST_VOTES, choose

    choice = choose(read_arrays(features, FEATURES)["vectors"], teachers=teachers, sigma=sigma, classes=classes)
    if as_json:
        show_on_terminal(json.dumps(asdict(choice), indent=1, allow_nan=False))
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


command = stage_command(run, threads)
