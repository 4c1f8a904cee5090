"""Measure how fast commands start: the help of each command, and the imports of stages without training.

Run with `make bench`. Times are processor times, user and system, the least of four runs, so that a busy machine
changes them little. Prints a table and writes it as Markdown; the exit status is 1 if a target was missed.
"""

import os
import platform
import subprocess
import sys
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).parents[1]))

import click
from comparison import finish, least, limited, parse_out, processes_clock
from tests.test_start import MODULES

from patebench.cli import cli

PATEBENCH = Path(sys.executable).with_name("patebench")

#: Limits on the times of help and of imports, in seconds.
HELP, IMPORTS = 0.5, 1.0
#: Commands whose help lists the parameters of all mechanisms, so that all of them are imported.
LISTING = {"calibrate", "epsilon"}


def seconds(*command: str | Path) -> float:
    return least(partial(subprocess.run, command, check=True, capture_output=True), 4, processes_clock)


def main() -> int:
    out, rows = parse_out(__doc__, "benchmarks-start.md"), []
    for name in cli.list_commands(click.Context(cli)):
        limit = IMPORTS if name in LISTING else HELP
        rows.append(limited(f"`patebench {name} --help`", seconds(PATEBENCH, name, "--help"), limit))
    for stage, modules in MODULES.items():
        rows.append(limited(f"imports of `{stage}`", seconds(sys.executable, "-c", f"import {modules}"), IMPORTS))
    about = f"Processor time on {platform.machine()}, Python {platform.python_version()}, one thread."
    return finish(out, "How soon a command starts", about, rows, "other")


if __name__ == "__main__":
    sys.exit(main())
