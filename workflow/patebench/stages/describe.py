"""Command `describe`: propose types, ranges and values of a table's columns (its declaration) from public records."""

from pathlib import Path
from typing import Annotated

import click

from patebench.cli.command import FILE, stage_command
from patebench.data.proposal import propose

Label = Annotated[str | None, "Column to predict [default: the last one]."]
Owner = Annotated[str | None, "Column that identifies the person of each record [default: guessed from its name]."]


def run(*, path: Path, label: Label, owner: Owner) -> None:
    """Propose a declaration of the columns of the table PUBLIC: their types, ranges and values, as YAML.

    Review the lines marked "decide" before you use the declaration. The declaration is public. Later, numbers in
    private records are clipped to the declared ranges, and values that are not declared become "other".
    """
    click.echo("\n".join(propose(path, label=label, owner=owner).lines))


command = stage_command(run, click.Argument(["path"], type=FILE, metavar="PUBLIC"))
