"""The command `corrections`: what in the papers can not be right, as a page."""

from pathlib import Path

import click

from patebench.cli.command import home_option, in_home, stage_command


def run(*, home: Path) -> None:
    """Print what in the papers and their code can not be right, each with the tests that show it, in Markdown."""
    from patebench.reporting.corrections import page, read_corrections

    click.echo(page(read_corrections(in_home(home, "docs/corrections.yaml"))), nl=False)


command = stage_command(
    run,
    home_option,
)
