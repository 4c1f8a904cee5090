"""Tables of measured times: ours beside another way, the ratio, and what was promised."""

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One line: what was done, how long it took, and whether that is what was promised."""

    what: str
    ours: str
    other: str = ""
    ratio: str = ""
    target: str = ""
    met: bool = True

    def cells(self) -> list[str]:
        verdict = "" if not self.target else "yes" if self.met else "**no**"
        return [self.what, self.ours, self.other, self.ratio, self.target, verdict]


def least(work: Callable[[], Any], repeat: int = 3, clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds of the best of a few runs: whatever else the machine does only adds."""
    best = math.inf
    for _ in range(repeat):
        started = clock()
        work()
        best = min(best, clock() - started)
    return best


def written(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def show(rows: Sequence[Row], other: str) -> None:
    """Print the table; `other` is the head of the column of the other way."""
    table = Table(*_head(other))
    for row in rows:
        table.add_row(*row.cells())
    Console(width=None if sys.stdout.isatty() else 150).print(table)


def markdown(title: str, about: str, rows: Sequence[Row], other: str) -> str:
    """The same as a page."""
    lines = [_head(other), ["---", "---:", "---:", "---:", "---:", "---"], *(row.cells() for row in rows)]
    body = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return f"# {title}\n\n{about}\n\n{body}\n"


def _head(other: str) -> list[str]:
    return ["what", "patebench", other, "ratio", "target", "met"]
