"""How many cases are tried, and what came of them."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import pytest

from patebench.core.errors import PatebenchError

#: Seconds after which a case hangs. The machine may be busy.
_PATIENCE = 60.0


class Hangs(BaseException):
    """Error for a case that takes too long; not an Exception, so that tested code does not catch it."""


@contextmanager
def _impatient() -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Tally:
    """Results of the cases so far; the lists of failed cases should stay empty."""

    tried: int = 0
    accepted: int = 0
    refused: int = 0
    wrongly_accepted: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)

    def attempt(self, case: str, use: Callable[[], str | None]) -> None:
        """Try one case by calling `use`.

        If `use` accepts its input, it returns None, or the reason why the input should have been refused.
        """
        self.tried += 1
        try:
            with _impatient():
                wrong = use()
        except PatebenchError as fault:
            self.refused += 1
            if "\n" in str(fault) or not str(fault):
                self.tracebacks.append(f"{case}: {fault}")
        except Hangs:
            self.hangs.append(case)
        except Exception as fault:
            self.tracebacks.append(f"{case}: {type(fault).__name__}: {fault}")
        else:
            self.accepted += 1
            self.wrongly_accepted += [f"{case}: {wrong}"] if wrong else []

    def show(self, what: str) -> None:
        print(
            f"\n{what}: {self.tried} tried, {self.refused} refused in one line, {self.accepted} accepted; wrongly "
            f"{len(self.wrongly_accepted)}, tracebacks {len(self.tracebacks)}, hangs {len(self.hangs)}"
        )
        assert self.tracebacks == [], self.tracebacks[:5]
        assert self.wrongly_accepted == [], self.wrongly_accepted[:5]
        assert self.hangs == [], self.hangs[:5]


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Yield a tally of cases; fail at the end unless each was refused in one line or correctly accepted."""
    found = Tally()
    yield found
    found.show(request.node.name)


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> Callable[[int], range]:
    """Return a function from a default number of cases to the range of case numbers; `--cases` replaces the default."""
    asked: Any = request.config.getoption("--cases")
    return lambda few: range(asked or few)
