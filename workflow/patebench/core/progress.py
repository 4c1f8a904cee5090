"""Progress of long work: a bar on a terminal, and plain lines in the log in all cases."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

log = logging.getLogger("patebench")

_SECONDS_BETWEEN_LINES = 30.0

#: Number of progress bars on the terminal, 0 or 1, because nested work draws no bar.
_bars = 0


class Report(Protocol):
    """Callback for progress: `done` is the number of units done so far, and `of` is the total number of units.

    `of` may be left out if the total was passed to `progress`.
    """

    def __call__(self, done: int, of: int | None = None, /) -> None: ...


def silent(done: int, of: int | None = None, /) -> None:
    """Ignore the progress; the default callback of functions that report progress."""


@contextmanager
def progress(what: str, total: int | None, unit: str) -> Iterator[Report]:
    """Show the progress of the block; yield a callback that receives the number of units done so far.

    `what` is the name of the work. It consists of `total` units (None if unknown at the start), and `unit` is the name
    of these units in the plural. Nested calls draw no bar.
    """
    global _bars
    started = last = time.monotonic()

    def line(done: int, of: int | None = None) -> None:
        nonlocal last, total
        total = of or total
        now = time.monotonic()
        if done == total or now - last >= _SECONDS_BETWEEN_LINES:
            last = now
            log.info("%s: %d of %d %s, %.0f s", what, done, total, unit, now - started)

    if _bars or not sys.stderr.isatty():
        yield line
        return

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    text, count, left = TextColumn("{task.description}"), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(text, BarColumn(), count, left, console=console, refresh_per_second=2, transient=True) as bar:
        task = bar.add_task(what, total=total)

        def both(done: int, of: int | None = None) -> None:
            bar.update(task, completed=done, total=of or total)
            line(done, of)

        _bars += 1
        try:
            yield both
        finally:
            _bars -= 1


class LogFile(logging.FileHandler):
    """Log file that is closed if it cannot be written, for instance on a full disk; the program continues."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, mode="w", encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        fault = sys.exc_info()[1]
        if not isinstance(fault, OSError):
            super().handleError(record)
            return
        log.removeHandler(self)
        reason = f"the log cannot be written ({fault.strerror}) and ends here; the program continues"
        print(f"patebench: {self.baseFilename}: {reason}", file=sys.stderr)
        with suppress(OSError):
            self.close()
