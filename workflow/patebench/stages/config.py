"""Command `config`: check a configuration, and print the schema or the reference page of configurations."""

from collections import Counter
from pathlib import Path

import click

from patebench.cli.command import FILE


@click.group("config")
def command() -> None:
    """Check a configuration; print the schema or the reference page of configurations."""


@command.command("check")
@click.argument("file", type=FILE)
def check(file: Path) -> None:
    """Check the configuration FILE, and print the number of jobs per stage."""
    from patebench.config import load, validate

    checked = validate(load(file))
    for line in checked.warnings:
        click.echo(f"{file}: warning: {line}")
    counts = Counter(name.partition("/")[0] for name in checked.job_names())
    jobs = ", ".join(f"{stage} {count}" for stage, count in counts.items())
    click.echo(f"{file}: {'may be run' if checked.warnings else 'sound'}; jobs by stage: {jobs}")


@command.command("schema")
@click.option("--of", type=click.Choice(["configuration", "rows", "entry"]), default="configuration", help="Subject.")
def schema(of: str) -> None:
    """Print the JSON schema of configurations, of leaderboard entries, or of the file `rows.json` of a run."""
    if of == "rows":
        from patebench.reporting.rows import schema_text
    elif of == "entry":
        from patebench.leaderboard.entry import schema_text
    else:
        from patebench.config.schema import schema_text

    click.echo(schema_text(), nl=False)


@command.command("page")
def page() -> None:
    """Print the reference page of all configuration keys, in Markdown."""
    from patebench.config.schema import page as text

    click.echo(text(), nl=False)
