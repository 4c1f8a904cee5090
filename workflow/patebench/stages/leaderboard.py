"""Command `leaderboard`: write every entry of the leaderboard, with its computed ε and status."""

import json
from pathlib import Path
from typing import Annotated

import click

from patebench.cli.command import stage_command
from patebench.core.text import plural


def run(
    *,
    root: Annotated[Path, "Root of the repository."] = Path(),
    out: Annotated[Path, "Output folder, which gets one JSON file per entry."],
) -> None:
    """Write the entries written by hand, of kept runs and of published values, each with its computed ε and status."""
    from patebench.leaderboard.collection import assess_all

    assessed = assess_all(root)
    out.mkdir(parents=True, exist_ok=True)
    for entry in assessed:
        text = json.dumps(entry.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
        (out / f"{entry.entry.name}.json").write_text(text + "\n", encoding="utf-8")
    click.echo(f"{out}: {plural(len(assessed), 'entry')}")


command = stage_command(run)
