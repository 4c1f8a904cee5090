"""The stage `figure`: one figure from the records of a run."""

from collections.abc import Sequence
from pathlib import Path

import click

from patebench.stages.command import file_option, stage_command
from patebench.stages.records import read_records, record_files


def run(
    *,
    name: str,
    collected: Sequence[Path],
    baselines: Sequence[Path],
    audits: Sequence[Path],
    models: Sequence[Path] = (),
    published: Path,
    png: Path,
    pdf: Path,
) -> None:
    """Draw the figure NAME as PNG and PDF."""
    from patebench.reporting.figures import FIGURES
    from patebench.reporting.published import read_published
    from patebench.reporting.style import save, themed

    FIGURES.check(name)
    records = read_records(collected, baselines, audits, models)
    with themed():
        save(FIGURES.load(name)(records, read_published(published)), png, pdf)


command = stage_command(
    run,
    click.argument("name"),
    record_files,
    file_option("png", "Where the picture goes."),
    file_option("pdf", "Where the drawing goes."),
)
