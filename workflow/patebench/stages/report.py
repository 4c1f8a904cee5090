"""Stage `report`: write tables, figures, `rows.json` and pages from the records of a run."""

import itertools
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from patebench.artefacts.records import read_manifest, read_records, read_releases
from patebench.cli.command import OutputFile, stage_command
from patebench.core.errors import PatebenchError
from patebench.core.files import write_json, write_text

if TYPE_CHECKING:
    import pandas as pd

    from patebench.reporting.frames import Records
    from patebench.reporting.published import Published

log = logging.getLogger("patebench")

#: Maximum number of experiments named in a title.
_FEW = 3


def run(
    *,
    manifest: Annotated[Path, "Manifest of the run, which lists its records, figures and tables."],
    published: Annotated[Path, "Values printed in the papers (CSV)."],
    captions: Annotated[Path, "Folder of captions (.rst)."],
    out: Annotated[OutputFile, "Output file with the page; all other files are written next to it."],
) -> None:
    """Write tables, figures and rows from the records that the manifest lists, and a page that shows all of them.

    All files are written next to the page: `rows.json`, `figures/NAME.png` and `.pdf`, `tables/NAME.csv`, `.md` and
    `.tex`. For a run in release mode, `publishable.html` is written too. It is made only from released labels, bounds,
    students and public pools. Figures and tables of an earlier report in the same folder are deleted if the manifest
    does not list them.
    """
    from patebench.reporting import publishable
    from patebench.reporting.figures import FIGURES
    from patebench.reporting.outcomes import selected_by_labels
    from patebench.reporting.pages import render
    from patebench.reporting.published import read_published
    from patebench.reporting.rows import rows
    from patebench.reporting.tables import TABLES

    content = read_manifest(manifest, "records", "released", "copies", "figures", "tables")
    records = read_records(Path(file) for files in content["records"].values() for file in files)
    releases = read_releases(**{kind: list(map(Path, files)) for kind, files in content["released"].items()})
    values = read_published(published, content["copies"])
    folder, title = out.parent, title_of(content["config"])
    _check_inputs(folder, manifest, published)
    replaces_report = (folder / "rows.json").is_file() and out.is_file()
    found = rows(records, values, selected_by_labels(content["config"]))
    write_json(folder / "rows.json", "rows", found.model_dump(mode="json"))
    page = render(
        title=title,
        tables={name: _write_table(name, records, values, folder / "tables") for name in content["tables"]},
        figures={name: _write_figure(name, records, values, folder / "figures") for name in content["figures"]},
        manifest=content,
        manifest_link=Path(os.path.relpath(manifest, folder)).as_posix(),
        captions=captions,
        publishable="publishable.html" if releases else None,
    )
    if releases:
        write_text(folder / "publishable.html", publishable.render(title=title, releases=releases))
    write_text(out, page)
    if replaces_report:
        _delete_files(folder / "tables", set(TABLES) - set(content["tables"]), (".csv", ".md", ".tex"))
        _delete_files(folder / "figures", set(FIGURES) - set(content["figures"]), (".png", ".pdf"))


def _check_inputs(folder: Path, *inputs: Path) -> None:
    """Raise PatebenchError if one of `inputs` is a file that the report in `folder` would write or delete."""
    parts = [(folder / name).resolve() for name in ("tables", "figures")]
    for path in inputs:
        if path.resolve() == (folder / "rows.json").resolve() or path.resolve().parent in parts:
            line = f"{path} would be overwritten or deleted by the report; give --out in another folder"
            raise PatebenchError(line, code="overwrites", where="--out")


def _delete_files(folder: Path, names: Iterable[str], suffixes: Iterable[str]) -> None:
    """Delete the files in `folder` whose name is one of `names` and whose suffix is one of `suffixes`."""
    for name, suffix in itertools.product(names, suffixes):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)


def _write_table(name: str, records: "Records", published: "Published", folder: Path) -> "pd.DataFrame":
    """Write the table `name` as CSV, Markdown and LaTeX into `folder`, and return the content of its CSV."""
    from patebench.reporting.tables import TABLES
    from patebench.reporting.tables.table import read_csv

    log.info("writing table %s", name)
    table = TABLES.load(name)
    frame = table.build(records, published)
    text = table.csv(frame)
    for suffix, content in ((".csv", text), (".md", table.markdown(frame)), (".tex", table.latex(frame))):
        write_text(folder / f"{name}{suffix}", content)
    return read_csv(text)


def _write_figure(name: str, records: "Records", published: "Published", folder: Path) -> str:
    """Write the figure `name` as PNG and PDF into `folder`; return its SVG, or an empty string if it shows nothing."""
    from patebench.reporting.figures import FIGURES
    from patebench.reporting.style import is_empty, save, svg, themed

    log.info("writing figure %s", name)
    with themed():
        figure = FIGURES.load(name)(records, published)
        save(figure, folder / f"{name}.png", folder / f"{name}.pdf")
        return "" if is_empty(figure) else svg(figure)


def title_of(configuration: Mapping[str, Any]) -> str:
    """Return the title of a report: the name of the `configuration` or, without a name, the names of its experiments.

    A name is followed by the experiments that the configuration's key `only` selects, if there are at most three.
    Without a name, the title lists at most three experiments and states the number of the others.
    """
    from patebench.config import shown

    name = configuration.get("name")
    if not name:
        named = list(shown(configuration)) if configuration.get("experiments") else []
        more = f" and {len(named) - _FEW} more" if len(named) > _FEW else ""
        return ", ".join(named[:_FEW]) + more or "default run"
    chosen = list(shown(configuration)) if configuration.get("only") else []
    suffix = f": {', '.join(chosen)}" if 0 < len(chosen) <= _FEW else ""
    return f"{name}{suffix}"


command = stage_command(run)
