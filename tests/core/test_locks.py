"""Test that one process holds a lock, and that a lock is taken over only if its process has ended."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patebench.core import files
from patebench.core.errors import ArtefactError
from patebench.core.files import file_lock

HOLD = """
import sys, pathlib
from patebench.core.files import file_lock
with file_lock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
#: Adds to a number in a file.
COUNT = """
import pathlib, sys, time
from patebench.core.files import file_lock
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


def test_one_process_at_a_time(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "number"
    path.write_text("0")
    counting = [start(COUNT, path) for _ in range(4)]
    assert [each.wait() for each in counting] == [0] * 4
    assert path.read_text() == "80"
    assert [each.name for each in tmp_path.iterdir()] == ["number"], "no lock is left"


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path, start: Start) -> None:
    first = start(HOLD, tmp_path / "ledger.json")
    assert said(first) == "held"
    second = start(HOLD, tmp_path / "ledger.json")
    time.sleep(0.5)
    first.kill()
    first.wait()
    assert said(second) == "held"


@pytest.mark.parametrize("elsewhere", [False, True], ids=["running", "on-another-host"])
def test_the_lock_of_a_process_that_may_run_is_kept(
    elsewhere: bool, tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    first = start(HOLD, path)
    said(first)
    (lock,) = tmp_path.iterdir()
    if elsewhere:
        first.kill()
        first.wait()
        pid, _, *more = lock.read_text().splitlines()
        lock.write_text("\n".join([pid, "elsewhere", *more, ""]))
    monkeypatch.setattr(files, "PATIENCE_S", 0.2)
    with pytest.raises(ArtefactError, match=f"process {first.pid} .*delete {lock}") as fault, file_lock(path):
        pass
    assert fault.value.code == "locked"
    assert lock.exists()


def test_a_lock_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ArtefactError, match=r"it cannot be locked \(\w+"), file_lock(tmp_path / "file" / "ledger.json"):
        pass
