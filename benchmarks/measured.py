"""Measure the time and memory of a command of the workflow, run as a separate process."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """One command on `queries` queries: processor seconds, wall seconds (`clock`), peak memory, size of its output.

    `peak`, `own` and `written` are in MB. `own` is the peak without pages of mapped files, which the kernel drops when
    memory is short.
    """

    what: str
    queries: int
    seconds: float
    clock: float
    peak: float
    own: float
    written: float

    @property
    def memory(self) -> str:
        return f"{self.peak:,.0f} MB"

    @property
    def size(self) -> str:
        return f"{self.written:,.0f} MB" if self.written >= 1 else f"{1000 * self.written:,.0f} kB"

    def expected(self, queries: int) -> str:
        """Return the processor time, in proportion, for `queries` queries."""
        return time_text(self.seconds * queries / self.queries)


def time_text(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def measure(what: str, queries: int, out: Path, *command: object) -> Measured:
    """Run one command of the workflow, which writes the file `out`, as a separate process."""
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
    print(found, file=sys.stderr)
    return found


def _memory(process: int) -> dict[str, float]:
    """Return the kernel's facts on the memory of a process, in MB; an empty dict once the process has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.endswith(" kB")}
