"""Locks that work on every file system, and records of running processes.

A lock on an open file (`flock`) fails on some shared file systems and is limited to one node on others. A lock here is
a folder with one file that records the process holding it; it requires only an atomic rename. Another process removes a
record only if the recorded process has certainly ended, which is known only on its own host.
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

#: Maximum wait in seconds for a lock that the same process holds throughout.
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Process:
    """A process on some host; fields of type str are empty if the system does not provide the value."""

    host: str
    #: Identifies the installed system, since hosts of different networks may have the same name.
    machine: str
    #: Identifies the running kernel, since process numbers start again after a reboot.
    boot: str
    #: Identifies the container whose process numbers include `pid`.
    namespace: str
    pid: int
    #: Start time in clock ticks since boot, since process numbers are reused.
    started: str
    #: When the record was written.
    since: str

    @classmethod
    def current(cls) -> "Process":
        """Return the calling process."""
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

    def to_text(self) -> str:
        """Return the content of a file that records this process."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def is_dead(self) -> bool:
        """Return True only if this process has certainly ended, which is known only on its own host."""
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
    """Return state and start time of a process on this host; empty if they cannot be read."""
    facts = _fact(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (facts[0], facts[19]) if len(facts) > 19 else ("", "")


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file, waiting while another process holds it.

    On the same host, the lock of a killed process is taken over. Raises ArtefactError if one process holds the lock for
    longer than `PATIENCE_S`, or if the lock cannot be created.
    """
    record = _acquire(path)
    try:
        yield
    finally:
        with suppress(OSError):
            record.unlink()
            record.parent.rmdir()


def _acquire(path: Path) -> Path:
    """Wait for the lock of `path`; return the file inside the lock that records this process."""
    lock, name = path.with_name(f".{path.name}.held"), f"{os.getpid()}-{token_hex(8)}.json"
    own = path.with_name(f".{path.name}.{name}.try")
    try:
        own.mkdir(parents=True)
        (own / name).write_text(Process.current().to_text(), encoding="utf-8")
        _wait(path, own, lock)
    except OSError as fault:
        why = os.strerror(fault.errno) if fault.errno else str(fault)
        fix = "see that its folder exists and is writable"
        raise ArtefactError(path, f"it cannot be locked ({why})", fix) from None
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return lock / name


def _wait(path: Path, own: Path, lock: Path) -> None:
    """Rename the folder `own` to `lock` as soon as no running process holds the lock."""
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
                f"{holder or 'an unknown process'} has locked this file for {PATIENCE_S:g} s",
                f"wait until that process ends; if it no longer runs, delete the folder {lock}",
            )
        time.sleep(0.05)


def _rename(own: Path, lock: Path) -> bool:
    """Rename the folder `own` to `lock` and return True, or return False if `lock` contains files."""
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
    """Remove the records of ended processes from a lock; return the remaining records."""
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
