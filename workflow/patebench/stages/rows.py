"""The stage `rows`: what a run found, one JSON object per method, data set and ε, for other programs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from patebench.artefacts.records import read_records, record_files
from patebench.cli.command import file_option, stage_command
from patebench.core.files import write_json
from patebench.reporting.published import NO_COPIES, read_published


def run(
    *,
    collected: Sequence[Path],
    baselines: Sequence[Path],
    audits: Sequence[Path],
    models: Sequence[Path] = (),
    published: Path,
    copy: Mapping[str, str] = NO_COPIES,
    out: Path,
) -> None:
    """Write one object per method, data set and ε: every ε, accuracy over the seeds, public data used.

    `patebench config schema --of rows` prints the JSON schema of the file.
    """
    from patebench.reporting.per_method import rows

    found = rows(read_records(collected, baselines, audits, models), read_published(published, copy))
    write_json(out, "rows", found.model_dump(mode="json"))


command = stage_command(
    run,
    record_files,
    file_option("out", "Where the rows go."),
)
