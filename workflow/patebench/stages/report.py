"""The stage `report`: the page that shows everything, from figures, tables and the manifest."""

from collections.abc import Sequence
from pathlib import Path

from patebench.core.files import read_json, write_text
from patebench.stages.command import file_option, stage_command


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

    content = read_json(manifest, "manifest")
    page = render(
        figures=figures,
        tables=tables,
        manifest=manifest,
        content=content,
        captions=captions,
        citation=citation,
        out=out,
    )
    write_text(out, page)


command = stage_command(
    run,
    file_option("figures", "A figure (PNG); repeat for each.", needed=False, several=True),
    file_option("tables", "A table (CSV); repeat for each.", needed=False, several=True),
    file_option("manifest", "The manifest of the run."),
    file_option("captions", "Folder of captions (.rst)."),
    file_option("citation", "How to cite (CITATION.cff).", needed=False),
    file_option("out", "Where the page goes."),
)
