"""The stage `report`: the page that shows everything, from figures, tables and the manifest."""

from collections.abc import Sequence
from pathlib import Path

import click

from patebench.core.files import read_json, write_text
from patebench.stages.command import FILE, in_file, out_file
from patebench.stages.command import command as stage_command


def run(*, figures: Sequence[Path], tables: Sequence[Path], manifest: Path, captions: Path, out: Path) -> None:
    """Write the page that shows everything.

    Figures and tables are shown in the order given; each is named after what it shows.
    """
    from patebench.reporting.report import render

    content = read_json(manifest, "manifest")
    write_text(
        out,
        render(figures=figures, tables=tables, manifest=manifest, content=content, captions=captions, out=out),
    )


command = stage_command(
    run,
    in_file("figures", "A figure (PNG); repeat for each.", needed=False, several=True),
    in_file("tables", "A table (CSV); repeat for each.", needed=False, several=True),
    in_file("manifest", "The manifest of the run."),
    click.option("--captions", type=FILE, required=True, help="Folder of captions (.rst)."),
    out_file("out", "Where the page goes."),
)
