"""Command `init`: write a configuration for a table."""

import shlex
from pathlib import Path
from typing import Annotated

import click

from patebench.cli.command import COUNT, FILE, OutputFile, stage_command
from patebench.core.errors import PatebenchError, located
from patebench.core.files import write_text
from patebench.data.proposal import configuration, propose
from patebench.stages.describe import Label, Owner


def run(
    *,
    path: Path,
    public: Annotated[Path | None, "Public table, if all of TABLE is private."],
    public_share: Annotated[
        float,
        "Fraction of the people in TABLE whose records become public; used without --public.",
        click.FloatRange(0, 1, min_open=True, max_open=True),
    ] = 0.3,
    label: Label,
    owner: Owner,
    people: Annotated[
        int | None,
        "Approximate number of people in the private part [default: estimated from the public part].",
        COUNT,
    ],
    out: Annotated[OutputFile | None, "Output file [default: name of the table with .yaml]."],
) -> None:
    """Write a configuration for the file TABLE, with a proposed declaration of its columns from public records.

    --public is a table of public records. Without --public, the records of a fraction of the people in TABLE become
    public. Only public records are used.
    """
    import yaml

    from patebench.config import validate

    share = None if public is not None else public_share
    proposal = propose(public or path, label=label, owner=owner, public_share=share)
    if people is None:
        people = proposal.public_people if share is None else round(proposal.public_people * (1 - share) / share)
    target = out or Path(path.stem + ".yaml")
    if target.exists():
        raise PatebenchError(f"{target} already exists; choose another name with --out", code="exists", where=target)
    # Paths in a configuration are relative to the folder of the Snakefile, in which Snakemake runs.
    base = Path() if Path("Snakefile").exists() else Path.cwd()
    text = "\n".join(configuration(base / path, public and base / public, proposal, people)) + "\n"
    with located(path):
        validate(yaml.safe_load(text), files=False)
    write_text(target, text)
    where = " in the repository" if base.is_absolute() else ""
    command = f"snakemake --cores all --configfile {shlex.quote(str(base / target))}"
    click.echo(f'wrote {target}; read the lines with "decide", then{where}: {command}')


command = stage_command(run, click.Argument(["path"], type=FILE, metavar="TABLE"))
