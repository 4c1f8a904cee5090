"""How soon a command starts: its help, and the modules that a stage imports before it does anything.

Run with `make bench`. Times are of the processor, user and system, the least of a few runs, so that a busy machine
changes them little. Prints a table and writes it as Markdown; exit status 1 says that a target was missed.
"""

import argparse
import os
import platform
import resource
import runpy
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import click
from comparison import Row, markdown, show

from patebench.cli import cli
from patebench.core.files import write_text

REPOSITORY = Path(__file__).parents[1]
REFERENCE = REPOSITORY / "results" / "reference" / "benchmarks-start.md"
PATEBENCH = Path(sys.executable).with_name("patebench")

#: Stages that only count, and what each imports.
MODULES: dict[str, str] = runpy.run_path(str(REPOSITORY / "tests" / "test_start.py"))["MODULES"]

#: Seconds that a person takes for "at once".
HELP, IMPORTS = 0.5, 1.0
#: Commands whose help lists the parameters of all mechanisms, so that all of them are imported.
LISTING = {"calibrate", "epsilon"}


def seconds(*command: str | Path) -> float:
    """Processor time of the best of a few runs: what the wall clock would show on a machine that does nothing else."""
    best = float("inf")
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return best


def limited(what: str, taken: float, limit: float) -> Row:
    return Row(what, f"{taken:.2f} s", target=f"≤ {limit:g} s", met=taken <= limit)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=REFERENCE, help="where the Markdown goes")
    out = parser.parse_args().out
    rows = []
    for name in cli.list_commands(click.Context(cli)):
        limit = IMPORTS if name in LISTING else HELP
        rows.append(limited(f"`patebench {name} --help`", seconds(PATEBENCH, name, "--help"), limit))
    for stage, modules in MODULES.items():
        rows.append(limited(f"imports of `{stage}`", seconds(sys.executable, "-c", f"import {modules}"), IMPORTS))
    about = f"Processor time on {platform.machine()}, Python {platform.python_version()}, one thread."
    show(rows, "other")
    write_text(out, markdown("How soon a command starts", about, rows, "other"))
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
