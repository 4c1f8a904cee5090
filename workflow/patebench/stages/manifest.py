"""The stage `manifest`: what ran, with which versions, on which machine, how long, from which configuration."""

import json
from pathlib import Path

import click

from patebench.core.errors import PatebenchError
from patebench.core.files import write_json
from patebench.stages.command import file_option, stage_command


def run(*, config: str, benchmarks: Path, out: Path) -> None:
    """Write down versions, commit, hardware, configuration, seeds and times."""
    from patebench.config import validate
    from patebench.reporting.manifest import manifest

    try:
        written = json.loads(config)
    except json.JSONDecodeError as fault:
        raise PatebenchError(f"--config is not valid JSON ({fault}); the workflow passes its own") from None
    checked = validate(written)
    plan = checked.plan()
    write_json(out, "manifest", manifest(written, checked.seeds, plan.modes(), benchmarks, plan.names()))


command = stage_command(
    run,
    click.option("--config", required=True, help="The configuration, as JSON."),
    file_option("benchmarks", "Folder of Snakemake's benchmark files."),
    file_option("out", "Where the manifest goes."),
)
