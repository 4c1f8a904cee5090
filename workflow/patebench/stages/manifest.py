"""The stage `manifest`: what ran, with which versions, on which machine, how long, from which configuration."""

import json
from collections.abc import Iterable
from pathlib import Path

import click

from patebench.cli.command import file_option, stage_command
from patebench.config.artefacts import Experiment
from patebench.core.errors import PatebenchError
from patebench.core.files import read_json, write_json


def run(*, config: str, benchmarks: Path, out: Path) -> None:
    """Write versions, commit, hardware, configuration, seeds and times, and what the report is made of and shows."""
    from patebench.config import validate
    from patebench.reporting.figures import FIGURES
    from patebench.reporting.manifest import manifest
    from patebench.reporting.tables import TABLES

    try:
        written = json.loads(config)
    except json.JSONDecodeError as fault:
        raise PatebenchError(f"--config is not valid JSON ({fault}); the workflow passes its own") from None
    checked = validate(written)
    content = manifest(written, checked.seeds, checked.modes, benchmarks, checked.job_names())
    sources = {"records": checked.record_files(), "released": checked.released(), "copies": checked.copies}
    shown = {"figures": checked.with_content(FIGURES), "tables": checked.with_content(TABLES)}
    write_json(out, "manifest", {**content, **sources, **shown})


def shown_no_more(pages: Path, wanted: Iterable[Experiment]) -> str | None:
    """A line on the experiments that a page shows already and will not show when it is made anew; None without any.

    What they made stays in the results: the page of all is one run of all away.
    """
    from patebench.config import shown

    try:
        config = read_json(pages / "manifest.json", "manifest")["config"]
        before = shown(config)
    except (PatebenchError, KeyError, AttributeError):
        return None  # there is no page yet, or none of ours
    dropped = [name for name in before if name not in {each.name for each in wanted}]
    if not dropped:
        return None
    return (
        f"patebench: {pages}/report.html shows {', '.join(dropped)} as well, and will not after this run, which is of a"
        " part; their results stay, and a run with them in `only` shows them again"
    )


command = stage_command(
    run,
    click.option("--config", required=True, help="The configuration, as JSON."),
    file_option("benchmarks", "Folder of Snakemake's benchmark files."),
    file_option("out", "Where the manifest goes."),
)
