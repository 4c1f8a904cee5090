"""The stage `figures`: figures from the records of a run."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from patebench.artefacts.records import read_records, record_files
from patebench.cli.command import file_option, stage_command
from patebench.core.errors import PatebenchError
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
    png: Sequence[Path] = (),
    pdf: Sequence[Path] = (),
) -> None:
    """Draw figures as PNG and PDF; each file shows the figure that it is named after."""
    from patebench.reporting.figures import FIGURES
    from patebench.reporting.style import save, themed

    for suffix, paths in ((".png", png), (".pdf", pdf)):
        for path in paths:
            if path.suffix != suffix:
                raise PatebenchError(f"{path}: --{suffix[1:]} writes {suffix} files; call it {path.stem}{suffix}")
    wanted = {path: FIGURES.check(path.stem) for path in (*png, *pdf)}
    records, values = read_records(collected, baselines, audits, models), read_published(published, copy)
    with themed():
        for name in dict.fromkeys(wanted.values()):
            log.info("figure %s", name)
            save(FIGURES.load(name)(records, values), *(path for path in wanted if wanted[path] == name))


command = stage_command(
    run,
    record_files,
    file_option("png", "Where a picture goes, called as the figure; repeat for each.", needed=False, several=True),
    file_option("pdf", "Where a drawing goes, called as the figure; repeat for each.", needed=False, several=True),
)
