"""Command `describe`: propose the declaration of a table from public records."""

from pathlib import Path
from typing import Annotated

import click

from patebench.cli.command import FILE, stage_command
from patebench.data.proposal import propose

Label = Annotated[str | None, "Column to predict [default: the last one]."]
Owner = Annotated[str | None, "Column that identifies the person of each record [default: guessed from its name]."]


def run(*, path: Path, label: Label, owner: Owner) -> None:
    """Propose a declaration of the columns of the table PUBLIC: their types, ranges and values, as YAML.

    Review the lines marked "decide". The declaration is public. Values of private records that it does not allow are
    clipped to the range or become "other".
    """
    click.echo("\n".join(propose(path, label=label, owner=owner).lines))


command = stage_command(run, click.Argument(["path"], type=FILE, metavar="PUBLIC"))
