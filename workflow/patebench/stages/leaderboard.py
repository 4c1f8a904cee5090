"""Command `leaderboard`: write the pages of the leaderboard, and each entry with its computed ε and status."""

from pathlib import Path
from typing import Annotated

import click

from patebench.cli.command import stage_command
from patebench.core.files import write_text
from patebench.core.text import plural


def run(
    *,
    root: Annotated[Path | None, "Root of the repository, by default the working directory."] = None,
    out: Annotated[Path, "Output folder."],
) -> None:
    """Assess all entries of the leaderboard, and write its pages.

    Entries are files written by hand, results of the kept runs, and values printed in papers. Each entry is written to
    `entries/NAME.json` with its computed ε and status. The pages are Markdown for the documentation site: `index.md`,
    one page of entries per data set, and `values.md`, which compares every value printed in a paper with the reference
    results. All files depend only on the commit.
    """
    from patebench.leaderboard.board import board_files
    from patebench.leaderboard.collection import assess_all

    place = root or Path()
    assessed = assess_all(place)
    for name, text in board_files(place, assessed).items():
        write_text(out / name, text)
    click.echo(f"{out}: {plural(len(assessed), 'entry')}")


command = stage_command(run)
