"""The stage `report`: the page that shows everything, from figures, tables and the manifest."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patebench.core.files import write_text
from patebench.stages.command import file_option, stage_command
from patebench.stages.records import read_manifest

#: More experiments than that are not named in the title.
_FEW = 3


def run(
    *,
    figures: Sequence[Path],
    tables: Sequence[Path],
    manifest: Path,
    captions: Path,
    citation: Path | None = None,
    out: Path,
) -> None:
    """Write the page that shows everything.

    Figures and tables are shown in the order given; each is named after what it shows.
    """
    from patebench.reporting.report import render

    content = read_manifest(manifest)
    page = render(
        title=_title(content.get("config") or {}),
        figures=figures,
        tables=tables,
        manifest=manifest,
        content=content,
        captions=captions,
        citation=citation,
        out=out,
    )
    write_text(out, page)


def _title(written: Mapping[str, Any]) -> str:
    """The configuration's name with its preset, and the experiments that it selects where they are few."""
    from patebench.config import run_name, shown

    name, preset = written.get("name"), written.get("preset")
    if not name:
        return "default run"
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
    file_option("out", "Where the page goes."),
)
