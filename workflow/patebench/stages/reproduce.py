"""The command `reproduce`: one row of a paper's table, by the configuration that runs it, and the verdicts on it."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patebench.cli.command import home_option, in_home, stage_command
from patebench.cli.terminal import show_on_terminal
from patebench.core.errors import PatebenchError
from patebench.core.registry import nearest
from patebench.reporting.published import Published, Value, read_published
from patebench.reporting.verdicts import no_way, why_not

if TYPE_CHECKING:
    import pandas as pd

#: What Snakemake need not say: reasons of jobs, which may hold the whole configuration. Its errors stay.
_QUIET = "reason"
#: Columns of the table of verdicts that are shown, and their headings.
_SHOWN_COLUMNS = {name: name for name in ("what", "printed", "measured", "seeds", "how", "verdict", "why")}
_SHOWN_COLUMNS["how"] = "by our"
#: Rows that may be meant, of which no more are named.
_SHOWN = 8


def run(
    *, row: str | None, only: str, seeds: str, data_root: str, cores: str, dry: bool, compare: bool, home: Path
) -> None:
    """Run what a ROW of a paper's table needs, and compare what it prints with what was measured.

    Without ROW, list all rows; part of a name will do where one row alone has it. The command that is run is printed
    first; --dry stops there, and --compare runs nothing but compares what is there. What is there already is not made
    again. Configuration and experiments are those that config/published.csv names for the row; --only names others.
    Data sets are looked for in --data-root, or where the environment variable PATEBENCH_DATA says.
    """
    from patebench.config import load, validate

    published = read_published(in_home(home, "config/published.csv"))
    rows = _rows(published)
    if row is None:
        _list(rows)
        return
    asked, row = row, _named(row, rows)
    if row != asked:
        click.echo(f"row: {row}")
    values = rows[row]
    configuration = next((value.configuration for value in values if value.configuration), None)
    if configuration is None:
        raise PatebenchError(f"no configuration measures '{row}'{_reasons(values, published)}")
    file = in_home(home, f"config/papers/{configuration}.yaml")
    verdicts = home / validate(load(file), files=False).pages / "tables" / "verdicts.csv"
    if compare:
        if only or seeds or data_root or dry:
            raise PatebenchError(
                "--compare runs nothing, so it goes with none of --only, --seeds, --data-root and --dry"
            )
        _show(_verdicts(verdicts, values))
        return
    experiments = only.split(",") if only else dict.fromkeys(name for value in values for name in value.experiments)
    command = _command(file, experiments, seeds, cores)
    # The variable overrides every configuration, so it is what says where data lie.
    variables = {"PATEBENCH_DATA": str(Path(data_root).expanduser().resolve())} if data_root else {}
    said = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    click.echo(" ".join([*said, shlex.join(command)]))
    if dry:
        return
    if subprocess.run(command, cwd=home, env={**os.environ, **variables}, check=False).returncode:
        raise PatebenchError("Snakemake stopped before the end; mend what it names, and give the same command again")
    _show(_verdicts(verdicts, values))


def _list(rows: Mapping[str, Sequence[Value]]) -> None:
    for name, values in rows.items():
        click.echo(f"{name}   ({', '.join(dict.fromkeys(value.column for value in values))})")


def _command(file: Path, experiments: Iterable[str], seeds: str, cores: str) -> list[str]:
    chosen = [f"only=[{','.join(experiments)}]", *([f"seeds=[{seeds}]"] if seeds else [])]
    quiet = ["--quiet", _QUIET]
    return ["snakemake", "--cores", cores, *quiet, "--configfile", str(file.resolve()), "--config", *chosen]


def _named(row: str, rows: Iterable[str]) -> str:
    """The row of that name, or the only one whose name has these words in their order; raises PatebenchError for
    others.

    Where several do, whole parts of the name are enough: "Table 10, MNIST" is not Fashion MNIST's.
    """
    wanted, parts = _words(row), _parts(row)
    found = [name for name in rows if _words(name) == wanted]
    found = found or [name for name in rows if _in_order(wanted, name)]
    found = [name for name in found if parts <= _parts(name)] or found
    if len(found) == 1:
        return found[0]
    if not found:
        raise PatebenchError(f"there is no row '{row}'{nearest(row, rows)}; `patebench reproduce` lists all")
    shown = ", ".join(f"'{name}'" for name in found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
    raise PatebenchError(f"'{row}' may be each of {len(found)} rows: {shown}; give the whole name of one")


def _words(name: str) -> list[str]:
    return re.findall(r"[^\s,()-]+", name.lower())


def _parts(name: str) -> set[tuple[str, ...]]:
    """The words of each part between commas: the paper, the table, the row."""
    return {tuple(_words(part)) for part in name.split(", ")}


def _in_order(wanted: Sequence[str], name: str) -> bool:
    """Whether a name has these words, others between them allowed."""
    left = iter(_words(name))
    return bool(wanted) and all(word in left for word in wanted)


def _rows(published: Published) -> dict[str, list[Value]]:
    """What papers print, by the names of their rows."""
    found: dict[str, list[Value]] = {}
    for value in published.values:
        found.setdefault(value.name, []).append(value)
    return found


def _reasons(values: Sequence[Value], published: Published) -> str:
    """Say why no number of a row can be measured, where that is known."""
    found = dict.fromkeys(filter(None, (why_not(value) or no_way(value, published) for value in values)))
    return f": {'; '.join(found)}" if found else ""


def _verdicts(path: Path, values: Sequence[Value]) -> "pd.DataFrame":
    import pandas as pd

    if not path.exists():
        raise PatebenchError(f"{path}: is not there, so there is nothing to compare; run it without --compare")
    try:
        frame = pd.read_csv(path, keep_default_na=False, na_values=[""])
        first = values[0]
        mine = (frame["paper"] == first.paper) & (frame["table"] == first.table) & (frame["row"] == first.row)
        found = frame.loc[mine, list(_SHOWN_COLUMNS)]
    except (OSError, ValueError, KeyError):
        raise PatebenchError(f"{path}: is no table of verdicts; run it without --compare") from None
    if found.empty:
        raise PatebenchError(f"{path}: has no verdict on '{first.name}', for that run measured nothing of its paper")
    return found


def _show(frame: "pd.DataFrame") -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in _SHOWN_COLUMNS.values():
        table.add_column(heading, overflow="fold")
    for row in json.loads(frame.to_json(orient="records")):
        shown = [row[name] for name in _SHOWN_COLUMNS]
        table.add_row(
            *("" if cell is None else f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in shown)
        )
    show_on_terminal(table)


command = stage_command(
    run,
    click.argument("row", required=False),
    click.option("--only", default="", help="The experiments to run, such as mnist,svhn [default: see above]."),
    click.option("--seeds", default="", help="Base seeds, such as 0,1,2 [default: the configuration's]."),
    click.option(
        "--data-root", default="", help="Where data sets lie [default: PATEBENCH_DATA, or the configuration]."
    ),
    click.option("--cores", default="all", show_default=True, help="For Snakemake."),
    click.option("--dry", is_flag=True, help="Print the command alone."),
    click.option("--compare", is_flag=True, help="Run nothing, and compare what the last run left."),
    home_option,
)
