"""Compare the jobs of the shipped configurations, as Snakemake plans them, with the lists kept in this folder.

A list contains outputs, inputs and options of each job, so a change of structure cannot change what is computed.

    python -m tests.oracle.test_jobs NAME…     # writes the lists of these configurations again
"""

import gzip
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests import dry_run

REPOSITORY = Path(__file__).parents[2]
FOLDER = Path(__file__).parent

#: Configurations with a kept list, by name; later ones have none.
CONFIGURATIONS = {
    "everything": REPOSITORY / "config" / "everything.yaml",
    "whole": REPOSITORY / "tests" / "workflow" / "whole.yaml",
    **{
        path.stem: path
        for path in sorted((REPOSITORY / "config" / "papers").glob("*.yaml"))
        if (FOLDER / f"{path.stem}.jsonl.gz").is_file()
    },
}

#: Options that say where a job runs or logs, not what it computes.
_WHERE = ("--log", "--threads", "--root", "--download", "--no-download")

Job = dict[str, Any]


def planned(configuration: Path) -> list[Job]:
    """Return all jobs of `configuration`, sorted, each with outputs, inputs and options."""
    settings = yaml.safe_load(configuration.read_text())
    names = list(settings["experiments"])
    with tempfile.TemporaryDirectory() as folder:
        for own in settings.get("datasets", {}).values():
            for path in (Path(folder, value) for value in own.values() if isinstance(value, str) and "/" in value):
                path.parent.mkdir(parents=True, exist_ok=True)
                # Enough tiny images for every experiment, for a configuration is checked against its files.
                np.savez(path, x=np.zeros((600_000, 1, 5, 5), np.uint8), y=np.arange(600_000) % 10)
        found = dry_run.planned(configuration, Path(folder), "--config", f"only={json.dumps(names)}")
        home = os.path.relpath(REPOSITORY, folder)
    return sorted((_summary(job, home) for job in found), key=lambda job: json.dumps(job, sort_keys=True))


def kept(name: str) -> list[Job]:
    """Return the stored list of jobs of the configuration `name`."""
    return [json.loads(line) for line in gzip.decompress(_file(name).read_bytes()).decode().splitlines()]


def write(name: str) -> None:
    """Store the list of jobs of the configuration `name`, one JSON object per line."""
    lines = "".join(json.dumps(job, sort_keys=True, ensure_ascii=False) + "\n" for job in planned(CONFIGURATIONS[name]))
    _file(name).write_bytes(gzip.compress(lines.encode(), mtime=0))


def _file(name: str) -> Path:
    return FOLDER / f"{name}.jsonl.gz"


def _summary(job: dry_run.Job, home: str) -> Job:
    """Return a job's files, stage and options, without options whose value is a file; `home` is the repository."""
    inputs, outputs = (sorted(path.replace(home, "<home>") for path in paths) for paths in (job.inputs, job.outputs))
    stage, *rest = (word.replace(home, "<home>") for word in job.words)
    options: list[str] = []
    argument = [rest.pop(0)] if rest and not rest[0].startswith("--") else []
    while rest:
        option = rest.pop(0)
        value = rest.pop(0) if rest and not rest[0].startswith("--") else None
        if option not in _WHERE and value not in {*inputs, *outputs}:
            options.append(option if value is None else f"{option}={value}")
    return {"inputs": inputs, "outputs": outputs, "stage": stage, "options": sorted(argument + options)}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_jobs_are_the_kept_ones(name: str) -> None:
    today = {tuple(job["outputs"]): job for job in planned(CONFIGURATIONS[name])}
    before = {tuple(job["outputs"]): job for job in kept(name)}
    assert today.keys() == before.keys()
    assert [(job, today[outputs]) for outputs, job in before.items() if today[outputs] != job] == []


if __name__ == "__main__":
    for chosen in sys.argv[1:] or CONFIGURATIONS:
        write(chosen)
        print(chosen, len(kept(chosen)), "jobs", _file(chosen).stat().st_size, "bytes", flush=True)
