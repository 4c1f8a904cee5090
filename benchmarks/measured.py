"""What a command of the workflow takes: time and memory of a process of its own."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """One command: its processor seconds, those by the clock, and the greatest memory that its process held, in MB.

    `own` leaves out pages of mapped files, which the kernel drops when memory is short.
    """

    what: str
    queries: int
    seconds: float
    clock: float
    peak: float
    own: float
    written: float

    def cells(self, queries: int) -> list[str]:
        """A line of the table; the last cell is the time for so many queries."""
        memory = [f"{mb:,.0f} MB" for mb in (self.peak, self.own)]
        size = f"{self.written:,.0f} MB" if self.written >= 1 else f"{1000 * self.written:,.0f} kB"
        return [
            self.what,
            f"{self.queries:,}",
            _time(self.seconds),
            _time(self.clock),
            *memory,
            size,
            self.expected(queries),
        ]

    def expected(self, queries: int) -> str:
        return _time(self.seconds * queries / self.queries)


def _time(seconds: float) -> str:
    return (
        f"{seconds:.1f} s"
        if seconds < 100
        else f"{seconds / 60:.0f} min"
        if seconds < 6000
        else f"{seconds / 3600:.1f} h"
    )


def measure(what: str, queries: int, out: Path, *command: object) -> Measured:
    """Run one command of the workflow in a process of its own."""
    started = time.monotonic()
    process = subprocess.Popen([Path(sys.executable).with_name("patebench"), *map(str, command)])
    peak = own = 0.0
    while True:
        held = _memory(process.pid)
        peak, own = max(peak, held.get("VmHWM", 0)), max(own, held.get("RssAnon", 0))
        number, status, used = os.wait4(process.pid, os.WNOHANG)
        if number:
            break
        time.sleep(0.1)
    if status:
        raise SystemExit(f"{what}: failed; see above")
    clock = time.monotonic() - started
    found = Measured(what, queries, used.ru_utime + used.ru_stime, clock, peak, own, out.stat().st_size / 1e6)
    print(*found.cells(queries), sep=" | ", file=sys.stderr)
    return found


def _memory(process: int) -> dict[str, float]:
    """What the kernel says of a process's memory, in MB; nothing once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.endswith(" kB")}
