"""Command `check_entry`: check entries of the leaderboard, and compute their ε from mechanism and parameters."""

import json
import sys
from pathlib import Path

import click

from patebench.cli.command import FILE, Json, stage_command
from patebench.core.errors import PatebenchError, separate
from patebench.core.text import at_most


def run(*, files: tuple[Path, ...], as_json: Json) -> None:
    """Check leaderboard entries (JSON): compute their ε from mechanism, parameters and queries or steps.

    Print one line per problem, and one line per entry with its status. The exit status is 1 if an entry is rejected,
    for example because its file is invalid or its unit of privacy, adjacency or δ is missing. Labels or votes attached
    to an entry are read from its folder.
    """
    from patebench.leaderboard.assessment import assess
    from patebench.leaderboard.entry import read_entry

    rejected, results = False, []
    for file in files:
        if not file.exists():
            raise PatebenchError("this file does not exist; give the path of an entry", code="missing-file", where=file)
        try:
            assessed = assess(read_entry(file), file.parent)
        except PatebenchError as fault:
            rejected = True
            for error in separate(fault):
                click.echo(_one_line(f"rejected: {error.code}: {error}"), err=as_json)
            continue
        rejected |= assessed.rejected
        results.append(assessed.to_json())
        if as_json:
            continue
        for problem in assessed.problems:
            verdict = "rejected" if problem.rejected else "flagged"
            click.echo(_one_line(f"{file}: {verdict}: {problem.code}: {problem.text}"))
        known = f"{at_most(assessed.bound.epsilon)} ({assessed.bound.accountant})" if assessed.bound else "unknown"
        claim = assessed.entry.claim
        click.echo(f"{file}: {assessed.status}: ε = {claim.epsilon:g} ({claim.kind.words}), worst case {known}")
    if as_json:
        click.echo(json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False))
    sys.exit(1 if rejected else 0)


def _one_line(text: str) -> str:
    """Return `text` with line ends and control characters escaped, since entries may contain them."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


command = stage_command(run, click.Argument(["files"], type=FILE, nargs=-1, required=True))
