"""The stage `report`: the page that shows everything, and of releases the page that may be published."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patebench.artefacts.records import read_manifest, read_releases
from patebench.cli.command import file_option, stage_command
from patebench.core.errors import PatebenchError
from patebench.core.files import write_text

#: More experiments than that are not all named in the title.
_FEW = 3


def run(
    *,
    figures: Sequence[Path],
    tables: Sequence[Path],
    manifest: Path,
    captions: Path,
    citation: Path | None = None,
    labels: Sequence[Path] = (),
    bounds: Sequence[Path] = (),
    students: Sequence[Path] = (),
    pools: Sequence[Path] = (),
    publishable: Path | None = None,
    out: Path,
) -> None:
    """Write the page that shows everything, and of releases a second one that holds only what may be published.

    Figures and tables are shown in the order given; each is named after what it shows. The second page is made from
    released labels, their bounds, students and public pools alone.
    """
    from patebench.reporting import publishable as second
    from patebench.reporting.report import render

    content = read_manifest(manifest)
    title = _title(content.get("config") or {})
    releases = read_releases(labels, bounds, students, pools)
    if (publishable is not None) != bool(releases):
        raise PatebenchError("a page to publish is one of released labels; give both --publishable and --labels")
    page = render(
        title=title,
        publishable=publishable,
        figures=figures,
        tables=tables,
        manifest=manifest,
        content=content,
        captions=captions,
        citation=citation,
        out=out,
    )
    write_text(out, page)
    if publishable is not None:
        write_text(publishable, second.render(title=title, releases=releases))


def _title(written: Mapping[str, Any]) -> str:
    """The configuration's name with its preset, and the experiments that it selects where they are few.

    A configuration without a name is called by its experiments.
    """
    from patebench.config import run_name, shown

    name, preset = written.get("name"), written.get("preset")
    if not name:
        named = list(shown(written)) if written.get("experiments") else []
        more = f" and {len(named) - _FEW} more" if len(named) > _FEW else ""
        return ", ".join(named[:_FEW]) + more or "default run"
    chosen = [] if preset or not written.get("only") else list(shown(written))
    told = f": {', '.join(chosen)}" if 0 < len(chosen) <= _FEW else ""
    return run_name(name, preset or "") + told


command = stage_command(
    run,
    file_option("figures", "A figure (PNG); repeat for each.", needed=False, several=True),
    file_option("tables", "A table (CSV); repeat for each.", needed=False, several=True),
    file_option("manifest", "The manifest of the run."),
    file_option("captions", "Folder of captions (.rst)."),
    file_option("citation", "How to cite (CITATION.cff).", needed=False),
    file_option("labels", "Released labels; repeat for each release.", needed=False, several=True),
    file_option("bounds", "Their bounds; repeat for each release.", needed=False, several=True),
    file_option("students", "Results of students of these labels; repeat for each.", needed=False, several=True),
    file_option("pools", "The public pools of these labels; repeat for each.", needed=False, several=True),
    file_option("publishable", "Where the page goes that may be published.", needed=False),
    file_option("out", "Where the page goes."),
)
