"""The command `corrections`: what in the papers and their code cannot be right, as a page.

Each entry of `docs/corrections.yaml` names the tests that show it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from patebench.cli.command import home_option, in_home, stage_command
from patebench.core.errors import ArtefactError

_MEND = "correct the entry; docs/corrections.yaml in the repository shows the form"
_HEAD = """# Correct the record

What in the papers and their code cannot be right, by how much, and the tests that show it. Made from
`docs/corrections.yaml` by `patebench corrections`; `pytest <test>` runs a test. How bounds are computed here instead
stands in [how ε is computed](which-epsilon.md).
"""


class Correction(BaseModel):
    """One statement that does not hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str = Field(min_length=1, description="The paper, as config/published.csv calls it.")
    where: str = Field(min_length=1, description="Its sections, tables or files.")
    said: str = Field(min_length=1, description="What it says.")
    wrong: str = Field(min_length=1, description="Why that cannot be.")
    amount: str = Field(min_length=1, description="By how much.")
    tests: tuple[str, ...] = Field(min_length=1, description="The node ids of the tests that show it.")


def read_corrections(path: Path) -> list[Correction]:
    """Return the corrections in a file; raises ArtefactError naming the first entry that is wrong."""
    try:
        entries: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as fault:
        raise ArtefactError(path, f"it cannot be read ({' '.join(str(fault).split())})", _MEND) from None
    try:
        return TypeAdapter(list[Correction]).validate_python(entries)
    except ValidationError as fault:
        first = fault.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "all of it"
        raise ArtefactError(path, f"entry {where} is wrong ({first['msg']})", _MEND) from None


def page(corrections: Sequence[Correction]) -> str:
    """Return Markdown with a section for each paper, in the order of the file."""
    papers = dict.fromkeys(each.paper for each in corrections)
    return "\n".join([_HEAD, *(line for paper in papers for line in _section(paper, corrections))])


def _section(paper: str, corrections: Sequence[Correction]) -> Iterator[str]:
    yield from (
        f"## {paper}",
        "",
        "| where | it says | what is wrong | by how much | shown by |",
        "|---|---|---|---|---|",
    )
    for each in corrections:
        if each.paper == paper:
            tests = "<br>".join(f"`{test}`" for test in each.tests)
            cells = [cell.replace("|", "\\|") for cell in (each.where, each.said, each.wrong, each.amount)]
            yield f"| {' | '.join(cells)} | {tests} |"
    yield ""


def run(*, home: Path) -> None:
    """Print what in the papers and their code cannot be right, each with the tests that show it, in Markdown."""
    click.echo(page(read_corrections(in_home(home, "docs/corrections.yaml"))), nl=False)


command = stage_command(run, home_option)
