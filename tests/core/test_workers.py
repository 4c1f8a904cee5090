"""Test that several processes give the same results in the same order, and one line if a process is killed.

The work is Python's own `eval`, which every process knows.
"""

import os
from collections.abc import Iterator

import pytest

from patebench.core import workers
from patebench.core.errors import PatebenchError

PROCESS = "__import__('os').getpid()"
THREADS = "__import__('os').environ['OMP_NUM_THREADS']"
DEATH = "__import__('os').kill(__import__('os').getpid(), 9)"


@pytest.fixture
def two() -> Iterator[None]:
    workers.set_processes(2)
    yield
    workers.set_processes(1)


def test_one_process_starts_no_others() -> None:
    workers.set_processes(1)
    assert set(workers.map_in_order(eval, [PROCESS] * 3)) == {os.getpid()}
    assert list(workers.map_in_order(eval, [])) == []


@pytest.mark.usefixtures("two")
def test_results_come_in_order_from_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    found = list(workers.map_in_order(eval, [f"({number}, {PROCESS}, {THREADS})" for number in range(9)]))
    assert [each[0] for each in found] == list(range(9))
    assert os.getpid() not in {each[1] for each in found}
    assert {each[2] for each in found} == {"1"}
    assert os.environ["OMP_NUM_THREADS"] == "7"


@pytest.mark.usefixtures("two")
def test_an_error_of_the_work_is_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError):
        list(workers.map_in_order(eval, ["1", "1 / 0"]))


@pytest.mark.usefixtures("two")
def test_a_killed_process_is_one_line() -> None:
    with pytest.raises(PatebenchError, match="one of 2 processes was killed"):
        list(workers.map_in_order(eval, ["1", "2", DEATH, *["3"] * 20]))
