"""The stage `tables`: tables from the records of a run."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from patebench.artefacts.records import read_records, record_files
from patebench.cli.command import file_option, stage_command
from patebench.core.files import write_text
from patebench.reporting.published import NO_COPIES, read_published

log = logging.getLogger("patebench")


def run(
    *,
    collected: Sequence[Path],
    baselines: Sequence[Path],
    audits: Sequence[Path],
    models: Sequence[Path] = (),
    published: Path,
    copy: Mapping[str, str] = NO_COPIES,
    csv: Sequence[Path] = (),
    markdown: Sequence[Path] = (),
    latex: Sequence[Path] = (),
) -> None:
    """Write tables as CSV (full precision), Markdown and LaTeX (booktabs); each file is named after its table."""
    from patebench.reporting.tables import TABLES

    forms = {"csv": csv, "markdown": markdown, "latex": latex}
    wanted = [(TABLES.check(path.stem), form, path) for form, paths in forms.items() for path in paths]
    records, values = read_records(collected, baselines, audits, models), read_published(published, copy)
    for name in dict.fromkeys(each for each, _, _ in wanted):
        log.info("table %s", name)
        table = TABLES.load(name)
        frame = table.build(records, values)
        for _, form, path in (each for each in wanted if each[0] == name):
            write_text(path, getattr(table, form)(frame))


command = stage_command(
    run,
    record_files,
    file_option("csv", "Where a table goes in full precision; repeat for each.", needed=False, several=True),
    file_option("markdown", "Where a table goes for reading; repeat for each.", needed=False, several=True),
    file_option("latex", "Where a table goes for a paper; repeat for each.", needed=False, several=True),
)
