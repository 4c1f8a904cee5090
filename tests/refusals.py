"""Expect errors for bad input, by the code and place of the error rather than its text."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from patebench.core.errors import PatebenchError


@contextmanager
def refuses(code: str, where: Path | str | None = None) -> Iterator[pytest.ExceptionInfo[PatebenchError]]:
    """Fail unless a PatebenchError with this `code` is raised, and with this `where` if it is given."""
    with pytest.raises(PatebenchError) as caught:
        yield caught
    assert caught.value.code == code, caught.value
    if where is not None:
        assert caught.value.where == str(where), caught.value
