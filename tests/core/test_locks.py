"""Locks exclude processes on every file system, and are removed only if their process has certainly ended."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from patebench.core import locks
from patebench.core.errors import ArtefactError
from patebench.core.locks import file_lock

HOLD = """
import sys, pathlib
from patebench.core.locks import file_lock
with file_lock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
#: Adds to a number in a file; what `flock` does is replaced first.
COUNT = """
import errno, fcntl, pathlib, sys, time
def flock(*_):
    {flock}
fcntl.flock = flock
from patebench.core.locks import file_lock
path = pathlib.Path(sys.argv[1])
for _ in range(20):
    with file_lock(path):
        number = int(path.read_text())
        time.sleep(0.001)
        path.write_text(str(number + 1))
"""
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start processes that live until they are killed or the test ends."""
    started: list[subprocess.Popen[str]] = []

    def begin(program: str, path: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, str(path)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for each in started:
        each.kill()
        each.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def change(record: Path, **facts: Any) -> None:
    """Change facts in the record of a process."""
    record.write_text(json.dumps(json.loads(record.read_text()) | facts))


@pytest.mark.parametrize(
    "flock", ["raise OSError(errno.ENOSYS, 'not implemented')", "return None"], ids=["missing", "local-to-a-node"]
)
def test_one_process_at_a_time_where_flock_does_not_work(flock: str, tmp_path: Path, start: Start) -> None:
    path = tmp_path / "number"
    path.write_text("0")
    counting = [start(COUNT.format(flock=flock), path) for _ in range(4)]
    assert [each.wait() for each in counting] == [0] * 4
    assert path.read_text() == "80"
    assert [each.name for each in tmp_path.iterdir()] == ["number"], "no lock is left"


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "ledger.json"
    first = start(HOLD, path)
    assert said(first) == "held"
    second = start(HOLD, path)
    time.sleep(0.5)
    kill(first)
    assert said(second) == "held"


def test_the_lock_of_a_zombie_is_taken_over(tmp_path: Path, start: Start) -> None:
    """A killed process whose parent does not wait for it is still listed."""
    path = tmp_path / "ledger.json"
    first = start(HOLD, path)
    said(first)
    os.kill(first.pid, signal.SIGKILL)
    assert said(start(HOLD, path)) == "held"


@pytest.mark.parametrize("facts", [{"started": "1"}, {"boot": "before", "machine": "m"}], ids=["number", "boot"])
def test_a_number_that_is_used_again_is_another_process(
    facts: dict[str, str], tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    said(start(HOLD, path))
    change(next(tmp_path.glob(".ledger.json.held/*")), **facts)
    read = locks._fact
    monkeypatch.setattr(
        locks, "_fact", lambda path: facts.get("machine", read(path)) if "machine" in path else read(path)
    )
    with file_lock(path):
        pass


@pytest.mark.parametrize(
    "facts",
    [{"host": "elsewhere"}, {"machine": "another"}, {"namespace": "pid:[1]"}, {"boot": "", "machine": ""}],
    ids=["host", "machine", "container", "unknown"],
)
def test_the_lock_of_a_process_that_is_not_certainly_dead_is_kept(
    facts: dict[str, str], tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    first = start(HOLD, path)
    said(first)
    kill(first)
    (record,) = tmp_path.glob(".ledger.json.held/*")
    change(record, **facts)
    monkeypatch.setattr(locks, "PATIENCE_S", 0.2)
    with pytest.raises(ArtefactError) as fault, file_lock(path):
        pass
    assert str(fault.value).startswith(f"{path}: process {first.pid} on ")
    assert str(fault.value).endswith(f"if it no longer runs, delete the folder {record.parent}.")
    assert record.exists()


def test_a_lock_that_is_held_for_long_ends_in_one_line(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    first = start(HOLD, path)
    said(first)
    monkeypatch.setattr(locks, "PATIENCE_S", 0.2)
    with (
        pytest.raises(ArtefactError, match=rf"process {first.pid} on .* has locked this file for 0.2 s; wait"),
        file_lock(path),
    ):
        pass


def test_a_lock_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "ledger.json"
    with (
        pytest.raises(ArtefactError, match=r"it cannot be locked \(Not a directory\); see that its folder exists"),
        file_lock(path),
    ):
        pass
