"""The command `compare`: what differs between two folders of results, in settings, numbers and times."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patebench.artefacts.records import RECORD_KINDS, read_manifest, read_records
from patebench.cli.command import FILE, file_option, stage_command
from patebench.cli.terminal import show_on_terminal, table_of
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_any_json, write_text
from patebench.core.text import cell_in_json, plural

if TYPE_CHECKING:
    import pandas as pd

    from patebench.reporting.frames import Records

_MANIFEST = "manifest.json"

#: Most rows that are shown; the CSV has all.
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
    """Show what differs in settings and times, if each folder has one run."""
    from patebench.reporting.comparison import settings, times

    manifests = [[path for path in _below(folder) if path.name == _MANIFEST] for folder in (one, other)]
    if [len(paths) for paths in manifests] != [1, 1]:
        counts = " and ".join(str(len(paths)) for paths in manifests)
        click.echo(f"Settings and times are compared where each folder has one run; these have {counts} manifests.")
        return
    contents = [read_manifest(path) for (path,) in manifests]
    heads, differing = [str(one), str(other)], settings(*contents)
    if differing:
        show_on_terminal(table_of(["", *heads], differing[:_SHOWN], title="Settings that differ"))
    else:
        click.echo("All settings, versions and machines are the same.")
    if len(differing) > _SHOWN:
        click.echo(f"… and {len(differing) - _SHOWN} more settings.")
    seconds = [
        [rule, f"{first:.1f}", f"{second:.1f}", f"{second / first:.2f}" if first > 0 else "—"]
        for rule, first, second in times(*contents)
    ]
    show_on_terminal(table_of(["rule", *heads, "times as long"], seconds, title="Seconds of a job", numbers=3))


def _show_numbers(frame: "pd.DataFrame") -> None:
    from patebench.reporting.comparison import CLEAR

    equal = int((frame["difference"] == 0).sum())
    clear = int((frame["errors"].abs() >= CLEAR).sum())
    click.echo(f"{len(frame)} numbers of both: {equal} equal, {clear} differ by {CLEAR:g} standard errors or more.")
    differing = frame[frame["difference"] != 0]
    if differing.empty:
        return
    heads = ["", "setting", "one", "other", "difference", "errors"]
    rows = [_cells(row) for row in differing.head(_SHOWN).to_dict("records")]
    show_on_terminal(table_of(heads, rows, title="What differs, most clearly first", numbers=4))
    if len(differing) > _SHOWN:
        click.echo(f"… and {len(differing) - _SHOWN} more; --csv FILE writes all.")


def _cells(row: dict[Any, Any]) -> list[str]:
    scale, unit = (100, " %") if "accuracy" in row["what"] else (1, "")
    values = [f"{scale * row[name]:.4g}{unit}" for name in ("one", "other")]
    error, errors = row["standard_error"], row["errors"]
    difference = f"{scale * row['difference']:+.3g}" + (f" ± {scale * error:.2g}" if error == error else "")
    return [row["what"], row["setting"], *values, difference, f"{errors:.1f}" if errors == errors else "—"]


command = stage_command(
    run,
    click.argument("one", type=FILE),
    click.argument("other", type=FILE),
    file_option("csv", "Where all rows go in full precision.", needed=False),
    file_option("plot", "Where a plot goes, as PNG and PDF.", needed=False),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)
