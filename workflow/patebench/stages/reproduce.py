"""Command `reproduce`: run the experiments behind a row of a paper's table, and show the verdicts on its values."""

import re
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import click

from patebench.cli.command import file_in_home, home_option, show_on_terminal, stage_command, table_of
from patebench.core.errors import PatebenchError
from patebench.core.registry import nearest
from patebench.core.text import listing
from patebench.reporting.published import Value, read_published

#: Columns of the table of verdicts that are shown, and their headings.
_SHOWN = {"what": "what", "printed": "printed", "measured": "measured", "seeds": "seeds", "how": "by our"}
_SHOWN |= {"verdict": "verdict", "why": "why"}


def run(
    *,
    row: str | None,
    seeds: Annotated[str, "Base seeds, such as 0,1,2 [default: those of the configuration]."] = "",
    cores: Annotated[str, "Number of cores for Snakemake."] = "all",
    dry: Annotated[bool, "Print the command without running it."],
    home: Path,
) -> None:
    """Run the experiments behind a ROW of a paper's table, and compare the printed values with the measured ones.

    Without ROW, all rows are listed. ROW is a row's name, or some of its words in order, if no other name contains
    them. The configuration and experiments of a row are listed in config/published.csv. The Snakemake command is
    printed first; with --dry it is not run. Existing results are not recomputed.
    """
    from patebench.config import load, validate

    published = read_published(file_in_home(home, "config/published.csv"))
    rows: dict[str, list[Value]] = {}
    for value in published.values:
        rows.setdefault(value.name, []).append(value)
    if row is None:
        for name, values in rows.items():
            click.echo(f"{name}   ({', '.join(dict.fromkeys(value.column for value in values))})")
        return
    name = _find_row(row, rows)
    if name != row:
        click.echo(f"row: {name}")
    values = rows[name]
    configuration = next((value.configuration for value in values if value.configuration), None)
    if configuration is None:
        reasons = dict.fromkeys(filter(None, (value.not_comparable or value.not_run for value in values)))
        raise PatebenchError(
            f"no configuration exists for the row '{name}'{': ' if reasons else ''}{'; '.join(reasons)}; choose another"
            " row (`patebench reproduce` lists all rows)"
        )
    file = file_in_home(home, f"config/papers/{configuration}.yaml")
    verdicts = home / validate(load(file), files=False).pages / "tables" / "verdicts.csv"
    experiments = ",".join(dict.fromkeys(name for value in values for name in value.experiments))
    command = ["snakemake", "--cores", cores, "--quiet", "reason", "--configfile", str(file.resolve())]
    command += ["--config", f"only=[{experiments}]", *([f"seeds=[{seeds}]"] if seeds else [])]
    click.echo(shlex.join(command))
    if dry:
        return
    if subprocess.run(command, cwd=home, check=False).returncode:
        raise PatebenchError("Snakemake failed; fix the error shown above and run the same command again")
    _show_verdicts(verdicts, values[0])


def _find_row(wanted: str, rows: Iterable[str]) -> str:
    """Return the name in `rows` that the user means by `wanted`.

    A name fits if it equals `wanted` except for case and punctuation. If there is no such name, every name that
    contains the words of `wanted` in order fits. Raise PatebenchError unless exactly one name fits.
    """
    words = _words(wanted)
    matching = [name for name in rows if _words(name) == words]
    if words and not matching:
        for name in rows:
            remaining = iter(_words(name))
            if all(word in remaining for word in words):
                matching.append(name)
    if not matching:
        raise PatebenchError(
            f"no table of a paper has the row '{wanted}'{nearest(wanted, rows)}; `patebench reproduce` lists all rows",
            code="unknown-name",
        )
    if len(matching) > 1:
        shown = listing([f"'{name}'" for name in matching])
        raise PatebenchError(
            f"'{wanted}' matches {len(matching)} rows: {shown}; give the full name of one", code="ambiguous-name"
        )
    return matching[0]


def _words(name: str) -> list[str]:
    """Return the words of a row's name in lower case, without commas, brackets and hyphens."""
    return re.findall(r"[^\s,()-]+", name.lower())


def _show_verdicts(path: Path, value: Value) -> None:
    """Print the verdicts on all values in one row of a paper's table, the row in which `value` is printed.

    The verdicts are read from `path`, the file verdicts.csv of a run.
    """
    import pandas as pd

    frame = pd.read_csv(path, keep_default_na=False, na_values=[""])
    same = (frame["paper"] == value.paper) & (frame["table"] == value.table) & (frame["row"] == value.row)
    verdicts = frame.loc[same, list(_SHOWN)].astype(object)
    if verdicts.empty:
        raise PatebenchError(
            f"the run measured no value of '{value.name}', so {path} contains no verdict on it; leave --seeds out, or "
            "give all seeds of the configuration"
        )
    cells = verdicts.where(verdicts.notna(), "").to_numpy().tolist()
    show_on_terminal(
        table_of(
            list(_SHOWN.values()),
            [[f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in line] for line in cells],
        )
    )


command = stage_command(run, click.Argument(["row"], required=False), home_option)
