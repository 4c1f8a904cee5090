"""Command `describe`: propose the declaration of a table from public records."""

from pathlib import Path

import click

from patebench.cli.command import FILE, stage_command
from patebench.data.proposal import propose

LABEL = click.option("--label", default=None, help="Column to predict [default: the last one].")
OWNER = click.option(
    "--owner", default=None, help="Column that identifies the person of each record [default: guessed from its name]."
)


def run(*, path: Path, label: str | None, owner: str | None) -> None:
    """Propose a declaration of the columns of the table PUBLIC: their types, ranges and values, as YAML.

    Review the lines marked "decide". The declaration is public, and values of private records outside of it are clipped
    or become "other".
    """
    click.echo("\n".join(propose(path, label=label, owner=owner).lines))


command = stage_command(run, click.argument("path", type=FILE, metavar="PUBLIC"), LABEL, OWNER)
