"""The command `compare`: what differs between two folders of results, in settings, numbers and times."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patebench.artefacts.records import RECORD_KINDS, read_manifest, read_records
from patebench.cli.command import FILE, file_option, stage_command
from patebench.cli.terminal import show_on_terminal
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_any_json, write_text
from patebench.core.text import cell_in_json, plural

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from patebench.reporting.frames import Records

_MANIFEST = "manifest.json"

#: So many rows are shown; the CSV has all.
_SHOWN = 30


def run(*, one: Path, other: Path, csv: Path | None, plot: Path | None, as_json: bool) -> None:
    """Compare the results in folder ONE with those in OTHER: settings, numbers with their spread over seeds, times.

    Seeds that both have are compared in pairs. For an own mechanism beside the reference, two commits, two machines.
    """
    from patebench.reporting.comparison import alone, compared, draw
    from patebench.reporting.style import save, themed

    records = _records(one), _records(other)
    frame, only = compared(*records), alone(*records)
    if csv is not None:
        write_text(csv, frame.to_csv(index=False, lineterminator="\n"))
    if plot is not None:
        with themed():
            save(draw(frame, (str(one), str(other))), plot.with_suffix(".png"), plot.with_suffix(".pdf"))
    if as_json:
        rows = [{name: cell_in_json(value) for name, value in row.items()} for row in frame.to_dict("records")]
        show_on_terminal(json.dumps({"compared": rows, "only_one": only[0], "only_other": only[1]}, ensure_ascii=False))
        return
    _show_manifests(one, other)
    _show_numbers(frame)
    for folder, words in zip((one, other), only, strict=True):
        if words:
            click.echo(f"Only in {folder}: {len(words)}, such as {words[0]}")


def _records(folder: Path) -> "Records":
    """Everything that was measured below a folder."""
    if not folder.is_dir():
        raise PatebenchError(f"{folder}: there is no such folder; give one that holds results")
    files: list[Path] = []
    skipped = 0
    for path in _below(folder):
        try:
            kind = read_any_json(path)[0]["kind"]
        except ArtefactError:
            skipped += 1
            continue
        if kind in RECORD_KINDS:
            files.append(path)
    if not files:
        held = "the page of a run, not its results" if (folder / _MANIFEST).is_file() else "no results of a run"
        raise PatebenchError(f"{folder}: it holds {held}; give the folder that `results` names")
    if skipped:
        click.echo(
            f"{folder}: {plural(skipped, 'file')} of others or damaged, left out: see `patebench check`", err=True
        )
    return read_records(files)


def _below(folder: Path) -> list[Path]:
    """The artefacts below a folder, but for the ledger and for pages of other runs that are kept beside."""
    found = sorted(folder.rglob("*.json"))
    return [path for path in found if not {"reference", "ledger"} & set(path.relative_to(folder).parts)]


def _show_manifests(one: Path, other: Path) -> None:
    """What differs in settings and times, where each folder has one run."""
    from patebench.reporting.comparison import settings, times

    manifests = [[path for path in _below(folder) if path.name == _MANIFEST] for folder in (one, other)]
    if [len(found) for found in manifests] != [1, 1]:
        counts = " and ".join(str(len(found)) for found in manifests)
        click.echo(f"Settings and times are compared where each folder has one run; these have {counts} manifests.")
        return
    contents = [read_manifest(path) for (path,) in manifests]
    table = _table("Settings that differ", ["", str(one), str(other)])
    rows = settings(*contents)
    for row in rows[:_SHOWN]:
        table.add_row(*row)
    show_on_terminal(table if rows else "All settings, versions and machines are the same.")
    if len(rows) > _SHOWN:
        click.echo(f"… and {len(rows) - _SHOWN} more settings.")
    table = _table("Seconds of a job", ["rule", str(one), str(other), "times as long"], numbers=3)
    for rule, first, second in times(*contents):
        table.add_row(rule, f"{first:.1f}", f"{second:.1f}", f"{second / first:.2f}" if first > 0 else "—")
    show_on_terminal(table)


def _show_numbers(frame: "pd.DataFrame") -> None:
    from patebench.reporting.comparison import CLEAR

    equal = int((frame["difference"] == 0).sum())
    clear = int((frame["errors"].abs() >= CLEAR).sum())
    click.echo(f"{len(frame)} numbers of both: {equal} equal, {clear} differ by {CLEAR:g} standard errors or more.")
    table = _table(
        "What differs, most clearly first", ["", "setting", "one", "other", "difference", "errors"], numbers=4
    )
    differing = frame[frame["difference"] != 0]
    for row in differing.head(_SHOWN).to_dict("records"):
        table.add_row(*_cells(row))
    if table.row_count:
        show_on_terminal(table)
    if len(differing) > _SHOWN:
        click.echo(f"… and {len(differing) - _SHOWN} more; --csv FILE writes all.")


def _cells(row: dict[Any, Any]) -> list[str]:
    scale, unit = (100, " %") if "accuracy" in row["what"] else (1, "")
    shown = [f"{scale * row[name]:.4g}{unit}" for name in ("one", "other")]
    error = row["standard_error"]
    apart = f"{scale * row['difference']:+.3g}" + (f" ± {scale * error:.2g}" if error == error else "")
    return [
        row["what"],
        row["setting"],
        *shown,
        apart,
        f"{row['errors']:.1f}" if row["errors"] == row["errors"] else "—",
    ]


def _table(title: str, headings: list[str], numbers: int = 0) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for place, heading in enumerate(headings):
        right = place >= len(headings) - numbers
        table.add_column(heading, justify="right" if right else "left", overflow="fold", no_wrap=right)
    return table


command = stage_command(
    run,
    click.argument("one", type=FILE),
    click.argument("other", type=FILE),
    file_option("csv", "Where all rows go in full precision.", needed=False),
    file_option("plot", "Where a plot goes, as PNG and PDF.", needed=False),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)
