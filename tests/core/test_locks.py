"""Locks exclude processes on every file system, and only those of processes that have certainly ended are removed."""

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
from patebench.core.locks import alone, record_run

RUN = """
import sys, pathlib
from patebench.core.locks import record_run
lines = record_run(pathlib.Path(sys.argv[1]), lambda: print("unlocked", end=" "))
print(*lines, flush=True)
sys.stdin.read()
"""
HOLD = """
import sys, pathlib
from patebench.core.locks import alone
with alone(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
#: Adds to a number in a file; what `flock` does is replaced first.
COUNT = """
import errno, fcntl, pathlib, sys, time
def flock(*_):
    {flock}
fcntl.flock = flock
from patebench.core.locks import alone
path = pathlib.Path(sys.argv[1])
for _ in range(20):
    with alone(path):
        number = int(path.read_text())
        time.sleep(0.001)
        path.write_text(str(number + 1))
"""
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes, each of which lives until it is killed, or until the test is over."""
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
    """Change what a record says of its process."""
    record.write_text(json.dumps(json.loads(record.read_text()) | facts))


def test_the_locks_of_a_killed_process_are_removed(tmp_path: Path, start: Start) -> None:
    first = start(RUN, tmp_path)
    assert said(first) == ""
    kill(first)
    second = said(start(RUN, tmp_path))
    assert second.startswith(f"unlocked removed the locks of process {first.pid} on ")
    assert second.endswith(", which was killed")


def test_a_zombie_has_ended(tmp_path: Path, start: Start) -> None:
    """A killed process whose parent does not wait for it is still listed."""
    first = start(RUN, tmp_path)
    said(first)
    os.kill(first.pid, signal.SIGKILL)
    time.sleep(0.2)
    assert said(start(RUN, tmp_path)).startswith("unlocked")


def test_the_locks_of_a_living_process_are_kept_also_when_another_came_and_went(tmp_path: Path, start: Start) -> None:
    first = start(RUN, tmp_path)
    assert said(first) == ""
    second = start(RUN, tmp_path)
    assert said(second) == ""
    kill(second)
    assert said(start(RUN, tmp_path)) == ""


def test_a_process_that_ended_leaves_no_record(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", RUN, str(tmp_path)], stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "facts",
    [{"host": "elsewhere"}, {"machine": "another"}, {"namespace": "pid:[1]"}, {"boot": "", "machine": ""}],
    ids=["host", "machine", "container", "unknown"],
)
def test_locks_of_a_process_that_is_not_certainly_dead_are_kept(
    facts: dict[str, str], tmp_path: Path, start: Start
) -> None:
    first = start(RUN, tmp_path)
    said(first)
    kill(first)
    change(next(tmp_path.glob("*.json")), **facts)
    second = said(start(RUN, tmp_path))
    assert "unlocked" not in second
    assert second.startswith(f"process {first.pid} on ")
    assert "may still run in this folder; if it does not, `snakemake --unlock` removes its locks" in second
    unlocked: list[bool] = []
    assert record_run(tmp_path, lambda: unlocked.append(True), forget=True) == []
    assert said(start(RUN, tmp_path)) == "", "nothing is recorded that may run elsewhere"
    assert not unlocked


def test_an_unreadable_record_keeps_the_locks(tmp_path: Path, start: Start) -> None:
    (tmp_path / "1-a.json").write_text("")
    line = said(start(RUN, tmp_path))
    assert line.startswith("an unknown process recorded in ")
    assert "snakemake --unlock" in line


@pytest.mark.parametrize("facts", [{"started": "1"}, {"boot": "before", "machine": "m"}], ids=["number", "boot"])
def test_a_number_that_is_used_again_is_another_process(
    facts: dict[str, str], tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(start(RUN, tmp_path))
    change(next(tmp_path.glob("*.json")), **facts)
    read = locks._fact
    monkeypatch.setattr(
        locks, "_fact", lambda path: facts.get("machine", read(path)) if "machine" in path else read(path)
    )
    unlocked: list[bool] = []
    (line,) = record_run(tmp_path, lambda: unlocked.append(True))
    assert unlocked
    assert "removed the locks" in line


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


def test_a_lock_that_is_held_for_long_ends_in_one_line(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    first = start(HOLD, path)
    said(first)
    monkeypatch.setattr(locks, "PATIENCE_S", 0.2)
    with (
        pytest.raises(ArtefactError, match=rf"process {first.pid} on .* has held its lock for 0.2 s; wait"),
        alone(path),
    ):
        pass


def test_the_lock_of_a_process_on_another_host_is_kept(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    first = start(HOLD, path)
    said(first)
    kill(first)
    (record,) = tmp_path.glob(".ledger.json.held/*")
    change(record, host="elsewhere")
    monkeypatch.setattr(locks, "PATIENCE_S", 0.2)
    with pytest.raises(ArtefactError) as fault, alone(path):
        pass
    assert str(fault.value).startswith(f"{path}: process {first.pid} on elsewhere (since 2")
    assert str(fault.value).endswith(f"if it no longer runs, delete the folder {record.parent}.")
    assert record.exists()


def test_a_lock_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "ledger.json"
    with (
        pytest.raises(ArtefactError, match=r"it cannot be locked \(Not a directory\); see that its folder can"),
        alone(path),
    ):
        pass
