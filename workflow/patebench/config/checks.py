"""Checks that several parts of a configuration share; every message starts with the path of the key it is about."""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from patebench.core.errors import PatebenchError, located
from patebench.core.fields import key_path, show
from patebench.core.registry import Registry, nearest
from patebench.core.text import plural

T = TypeVar("T")


class Agreement:
    """What must be the same wherever an artefact is asked for, because its path does not say it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[str, object]] = {}

    def settle(self, folder: str, where: str, value: object) -> None:
        """Note the value at `where` for `folder`; refuse it if it was noted otherwise elsewhere."""
        kind = where.rsplit(".", 1)[-1]
        place, known = self._known.setdefault((folder, kind), (where, value))
        if known != value:
            raise PatebenchError(
                f"{where}: is {show(value)}, but {place} is {show(known)} and both make {folder}; give both one value"
            )


def entries(where: str, values: Sequence[T]) -> list[tuple[str, T]]:
    """Each value of a list with the path of its key."""
    return [(key_path(where, i), value) for i, value in enumerate(values)]


def places(where: str, values: Sequence[T]) -> list[tuple[str, T]]:
    """The same, but a single value has the path of the list, as it may be written without one."""
    return [(where, values[0])] if len(values) == 1 else entries(where, values)


def check_among(where: str, value: object, allowed: Iterable[Any], what: str) -> None:
    allowed = list(allowed)
    if value not in allowed:
        names = [str(each) for each in allowed]
        raise PatebenchError(
            f"{where}: {show(value)} is not {what}{nearest(value, names)}; allowed: {', '.join(names)}"
        )


def check_registered(where: str, name: str, registry: Registry) -> None:
    with located(where):
        registry.check(name)


def check_pool(where: str, queries: Sequence[int], pool: int) -> None:
    """Refuse more queries than the pool holds."""
    for place, value in places(where, queries):
        if value > pool:
            raise PatebenchError(
                f"{place}: is {value}, but the pool holds {plural(pool, 'sample')}; ask for at most {pool}"
            )


def check_folder(where: str, path: str) -> None:
    """Refuse a folder for results that is a file, or that can not be made or written to."""
    place = Path(path)
    there = next(each for each in (place, *place.absolute().parents) if each.exists())
    if not there.is_dir():
        raise PatebenchError(f"{where}: {there} is a file; give a folder")
    try:
        with tempfile.TemporaryFile(dir=there):  # which leaves nothing; a user who may do all has rights in /proc too
            pass
    except OSError:
        raise PatebenchError(f"{where}: {there} can not be written to; give another folder") from None


def check_exists(where: str, path: str) -> None:
    if not Path(path).exists():
        raise PatebenchError(f"{where}: there is no {path}; give a path that exists, from {Path.cwd()}")
