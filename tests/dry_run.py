"""Read the jobs that Snakemake plans (rules, files and commands) from the output of a dry run."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patebench.cli import cli

REPOSITORY = Path(__file__).parents[1]

_RULE = re.compile(r"^ *(?:local)?rule (\w+):$")
_FIELD = re.compile(r"^ +(input|output): (.*)$")
_COMMAND = "Shell command: patebench "


@dataclass(frozen=True)
class Job:
    """One job: its rule, its files, and the `words` of its command after "patebench"; the first word is the stage."""

    rule: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    words: tuple[str, ...]


def planned(configuration: Path, folder: Path, *arguments: str) -> list[Job]:
    """Return the jobs of a configuration that is run in `folder`, except the target rule, which has no command."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(REPOSITORY / "Snakefile"), "--dry-run"]
    command += ["--printshellcmds", "--cores", "2", "--configfile", str(configuration), *arguments]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", "PATEBENCH_DATA": "data"}
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise RuntimeError(f"{configuration}: {done.stdout[-2000:]}")
    return list(_jobs(done.stdout))


def make(configuration: Path, folder: Path, *arguments: str) -> list[Job]:
    """Run the jobs of a configuration in `folder` one after another, all in this process, to import modules once.

    Returns the jobs.
    """
    jobs = planned(configuration, folder, *arguments)
    with contextlib.chdir(folder):
        for job in jobs:
            for output in job.outputs:
                Path(output).parent.mkdir(parents=True, exist_ok=True)
            cli(list(job.words), standalone_mode=False)
            assert all(Path(output).is_file() for output in job.outputs), job
    return jobs


def _jobs(printed: str) -> Iterator[Job]:
    rule, files = "", dict[str, tuple[str, ...]]()
    for line in printed.splitlines():
        if found := _RULE.match(line):
            rule, files = found[1], {}
        elif found := _FIELD.match(line):
            files[found[1]] = tuple(re.sub(r" \(.*?\)$", "", each) for each in found[2].split(", "))
        elif line.strip().startswith(_COMMAND):
            words = shlex.split(line.strip().removeprefix(_COMMAND))
            yield Job(rule, files.get("input", ()), files["output"], tuple(words))
