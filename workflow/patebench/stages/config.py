"""The command `config`: check a configuration, and print what is known of all of them."""

from pathlib import Path

import click

from patebench.stages.command import FILE


@click.group()
def command() -> None:
    """Check a configuration; print the schema of all, or the page that describes them."""


@command.command("check")
@click.argument("file", type=FILE)
def check(file: Path) -> None:
    """Check the configuration FILE, and say what it makes."""
    from patebench.config import load, validate

    artefacts = validate(load(file)).plan().artefacts()
    made = ", ".join(f"{stage} {len(files)}" for stage, files in artefacts.items() if files)
    click.echo(f"{file}: sound; files by stage: {made}")


@command.command("schema")
def schema() -> None:
    """Print the JSON schema of configurations, for editors."""
    from patebench.config.schema import schema_text

    click.echo(schema_text(), nl=False)


@command.command("page")
def page() -> None:
    """Print the page that describes every key, in Markdown."""
    from patebench.config.schema import page as text

    click.echo(text(), nl=False)


command.name = "config"
