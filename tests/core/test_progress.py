"""Test that nested work draws no progress bar, since bars would overwrite each other."""

import sys

import pytest
import rich.progress

from patebench.core.progress import progress


def test_only_the_outermost_draws_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    class Bar(rich.progress.Progress):
        def add_task(self, description: str, *arguments: object, **settings: object) -> rich.progress.TaskID:
            drawn.append(description)
            return super().add_task(description, *arguments, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(rich.progress, "Progress", Bar)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    for _ in range(2):
        with progress("outer", 1, "steps") as outer:
            with progress("inner", 1, "steps") as inner:
                inner(1)
            outer(1)
    assert drawn == ["outer", "outer"]
