"""Expect errors for bad input, by the code and place of the error rather than its text."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from patebench.core.errors import PatebenchError


@contextmanager
def refuses(code: str, where: Path | str | None = None) -> Iterator[pytest.ExceptionInfo[PatebenchError]]:
    """Require that the block raises a PatebenchError with this `code` and, if not None, this `where`."""
    with pytest.raises(PatebenchError) as caught:
        yield caught
    assert caught.value.code == code, caught.value
    if where is not None:
        assert caught.value.where == str(where), caught.value
