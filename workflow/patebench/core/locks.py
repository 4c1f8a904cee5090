"""Locks that work on every file system, and records of running processes.

A lock on an open file (`flock`) fails on some shared file systems and holds within one node only on others. A lock here
is a folder with one file, which records the process that holds it; all that it needs is an atomic rename. Another
process removes a record only if the recorded process has certainly ended, which can be known on its host alone.
"""

import errno
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

from patebench.core.errors import ArtefactError

#: Seconds to wait for a lock that one process holds all that time.
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Process:
    """A process of some host; `machine`, `boot`, `namespace` and `started` are empty where the system has none."""

    host: str
    #: Identifies the installed system: hosts of different networks may have one name.
    machine: str
    #: Identifies the running kernel: process numbers start again with the next one.
    boot: str
    #: Identifies the container whose process numbers include `pid`.
    namespace: str
    pid: int
    #: Start time in clock ticks since boot: process numbers are used again.
    started: str
    #: When the record was written.
    since: str

    @classmethod
    def current(cls) -> "Process":
        """Return the process that calls this."""
        pid = os.getpid()
        return cls(
            host=socket.gethostname(),
            machine=_fact("/etc/machine-id"),
            boot=_fact("/proc/sys/kernel/random/boot_id"),
            namespace=_namespace(),
            pid=pid,
            started=_state_and_start(pid)[1],
            since=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    @classmethod
    def read(cls, record: Path) -> "Process | None":
        """Return the process that a file records, or None if the file cannot be read."""
        try:
            content = json.loads(record.read_text(encoding="utf-8"))
            facts = {name: str(content[name]) for name in ("host", "machine", "boot", "namespace", "started", "since")}
            return cls(pid=int(content["pid"]), **facts)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def written(self) -> str:
        """Return the content of a file that records this process."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def is_dead(self) -> bool:
        """Return True only if this process has certainly ended, which can be known on its own host alone."""
        here = Process.current()
        if (self.host, self.machine) == (here.host, here.machine) and self.boot != here.boot:
            return "" not in (self.machine, self.boot, here.boot)
        names = ("host", "machine", "boot", "namespace")
        if any(getattr(self, name) != getattr(here, name) for name in names) or self.pid <= 0:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            return False
        state, started = _state_and_start(self.pid)
        return state in ("Z", "X") or (started != self.started and "" not in (started, self.started))

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.since})"


def _fact(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _state_and_start(pid: int) -> tuple[str, str]:
    """Return state and start time of a process of this host, empty where they cannot be read."""
    facts = _fact(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (facts[0], facts[19]) if len(facts) > 19 else ("", "")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock of a file, waiting while another process holds it.

    The lock of a process that was killed is taken over on the same host. Raises ArtefactError if one process holds the
    lock for longer than `PATIENCE_S`, and if no lock can be made.
    """
    record = _acquire(path)
    try:
        yield
    finally:
        with suppress(OSError):
            record.unlink()
            record.parent.rmdir()


def _acquire(path: Path) -> Path:
    """Wait for the lock of `path` and return the record of this process in it."""
    lock, name = path.with_name(f".{path.name}.held"), f"{os.getpid()}-{token_hex(8)}.json"
    own = path.with_name(f".{path.name}.{name}.try")
    try:
        own.mkdir(parents=True)
        (own / name).write_text(Process.current().written(), encoding="utf-8")
        _wait(path, own, lock)
    except OSError as fault:
        why = os.strerror(fault.errno) if fault.errno else str(fault)
        raise ArtefactError(path, f"it cannot be locked ({why})", "see that its folder can be written to") from None
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return lock / name


def _wait(path: Path, own: Path, lock: Path) -> None:
    """Rename `own` to `lock` as soon as no living process holds it."""
    holders: list[Path] = []
    since = time.monotonic()
    while not _rename(own, lock):
        before, holders = holders, _remove_dead(lock)
        if holders != before:
            since = time.monotonic()
        elif time.monotonic() - since > PATIENCE_S:
            holder = Process.read(holders[0]) if holders else None
            raise ArtefactError(
                path,
                f"{holder or 'an unknown process'} has held its lock for {PATIENCE_S:g} s",
                f"wait until that process ends, or, if it no longer runs, delete the folder {lock}",
            )
        time.sleep(0.05)


def _rename(own: Path, lock: Path) -> bool:
    """Rename a folder to one that is missing or empty; return False if there are files in it."""
    with suppress(OSError):
        lock.rmdir()
    names = os.listdir(own)
    try:
        own.rename(lock)
    except OSError as fault:
        # A network file system may lose the answer to a request that was granted.
        if not own.exists() and all((lock / name).exists() for name in names):
            return True
        if fault.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _remove_dead(lock: Path) -> list[Path]:
    """Remove the records of dead processes from a lock and return the others."""
    try:
        records = sorted(lock.iterdir())
    except FileNotFoundError:
        return []
    processes = {record: Process.read(record) for record in records}
    dead = [record for record, process in processes.items() if process is not None and process.is_dead()]
    for record in dead:
        with suppress(OSError):
            record.unlink()
    return [record for record in records if record.exists()]
