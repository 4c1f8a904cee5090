"""Measure times beside another way of the same computation, and write them as tables with their targets."""

import argparse
import math
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from patebench.core.files import write_text

#: Folder of the kept pages of measurements.
REFERENCE = Path(__file__).parents[1] / "results" / "reference"


@dataclass(frozen=True)
class Row:
    """Row of a table: what was measured, our time, that of the other way, their ratio, the target, and if it is met."""

    what: str
    ours: str
    other: str = ""
    ratio: str = ""
    target: str = ""
    met: bool = True

    def cells(self) -> list[str]:
        verdict = "" if not self.target else "yes" if self.met else "**no**"
        return [self.what, self.ours, self.other, self.ratio, self.target, verdict]


def limited(what: str, seconds: float, limit: float) -> Row:
    """Return a row with a time in seconds and its upper limit, without another way."""
    return Row(what, f"{seconds:.2f} s", target=f"≤ {limit:g} s", met=seconds <= limit)


def least(work: Callable[[], Any], repeat: int = 3, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of the fastest of `repeat` runs of `work`; other work of the machine only adds time."""
    best = math.inf
    for _ in range(repeat):
        started = clock()
        work()
        best = min(best, clock() - started)
    return best


def processes_clock() -> float:
    """Return the processor seconds of all processes that this process started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def written(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def show(rows: Sequence[Row], other: str) -> None:
    """Print the table; `other` is the heading of the column of the other way."""
    table = Table(*_heading(other))
    for row in rows:
        table.add_row(*row.cells())
    Console(width=None if sys.stdout.isatty() else 150).print(table)


def markdown(title: str, about: str, rows: Sequence[Row], other: str) -> str:
    """Return a Markdown page with the table that `show` prints."""
    return f"# {title}\n\n{about}\n\n{markdown_table(_heading(other), (row.cells() for row in rows), 'lrrrrl')}\n"


def markdown_table(heading: Sequence[str], rows: Iterable[Sequence[str]], alignment: str) -> str:
    """Return a Markdown table; `alignment` has one letter per column: l for left, r for right."""
    marks = [{"l": "---", "r": "---:"}[letter] for letter in alignment]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heading, marks, *rows))


def _heading(other: str) -> list[str]:
    return ["what", "patebench", other, "ratio", "target", "met"]


def parse_out(description: str | None, page: str) -> Path:
    """Return the file to write, the value of the option --out; by default the kept page `page`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=REFERENCE / page, help="where the Markdown goes")
    return parser.parse_args().out


def finish(out: Path, title: str, about: str, rows: Sequence[Row], other: str) -> int:
    """Print `rows`, write them as a page to `out`, and return the exit status: 1 if a target was missed."""
    show(rows, other)
    write_text(out, markdown(title, about, rows, other))
    return 0 if all(row.met for row in rows) else 1
