"""The stage `table`: one table from the records of a run."""

from collections.abc import Sequence
from pathlib import Path

import click

from patebench.core.files import write_text
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
    csv: Path,
    markdown: Path,
    latex: Path,
) -> None:
    """Write the table NAME as CSV (full precision), Markdown and LaTeX (booktabs)."""
    from patebench.reporting.published import read_published
    from patebench.reporting.tables import TABLES

    table = TABLES.load(TABLES.check(name))
    frame = table.build(read_records(collected, baselines, audits, models), read_published(published))
    write_text(csv, table.csv(frame))
    write_text(markdown, table.markdown(frame))
    write_text(latex, table.latex(frame))


command = stage_command(
    run,
    click.argument("name"),
    record_files,
    file_option("csv", "Where the table goes in full precision."),
    file_option("markdown", "Where the table goes for reading."),
    file_option("latex", "Where the table goes for a paper."),
)
