"""Files of a data set below the data root: what is missing or damaged is told in one line."""

import hashlib
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from patebench.core.errors import PatebenchError

#: Seconds without an answer after which a download gives up.
TIMEOUT = 15.0


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of a data set in a folder below the data root, each with its MD5, or None where it is not known."""

    name: str
    folder: str
    files: Mapping[str, str | None]

    def require(self, root: Path, download: bool) -> None:
        """PatebenchError where a file is missing and must not be fetched."""
        missing = self.missing(root)
        if missing and not download:
            raise self._lacks(root, missing, "downloading is off")

    def read(self, root: Path, reader: Callable[[], Any]) -> Any:
        """What `reader` returns, which fetches what is missing; PatebenchError where it fails or a file is wrong."""
        try:
            with _impatient():
                found = reader()
        except (OSError, RuntimeError, ValueError, TypeError, AssertionError, EOFError, HTTPException) as fault:
            if missing := self.missing(root):
                raise self._lacks(root, missing, f"the download failed: {fault}") from None
            raise self._damaged(root, str(fault) or type(fault).__name__) from None
        self._verify(root)
        return found

    def missing(self, root: Path) -> list[str]:
        return [name for name in self.files if not (root / self.folder / name).is_file()]

    def _verify(self, root: Path) -> None:
        for name, expected in self.files.items():
            if expected is not None and _md5(root / self.folder / name) != expected:
                raise self._damaged(root, f"the MD5 of {name} is wrong")

    def _lacks(self, root: Path, missing: list[str], why: str) -> PatebenchError:
        return PatebenchError(
            f"the data set '{self.name}' is not complete under {root} ({why}); put {', '.join(missing)} into"
            f" {root / self.folder}, or allow the download where there is a network"
        )

    def _damaged(self, root: Path, why: str) -> PatebenchError:
        return PatebenchError(
            f"the data set '{self.name}' in {root / self.folder} is damaged ({why}); put good"
            f" files in the place of {', '.join(self.files)}, or move these away and let them be downloaded again"
        )


@contextmanager
def _impatient() -> Iterator[None]:
    """Let no socket wait for ever: a machine behind a silent firewall should fail in seconds."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _md5(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
