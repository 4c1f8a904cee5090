"""The one exception that users are meant to see: a single line that says what is wrong, where, and what to do."""

from pathlib import Path


class PatebenchError(Exception):
    """A fault that the user can mend; the command line prints it as one line and exits with status 2."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class ArtefactError(PatebenchError):
    """A file that is missing, damaged, or not what the stage needs."""

    def __init__(self, path: Path | str, fault: str, mend: str | None = None) -> None:
        super().__init__(f"{path}: {fault}; {mend or _mend(Path(path))}.")
        self.path, self.fault, self.mended = Path(path), fault, mend is not None


def _mend(path: Path) -> str:
    """What to do about a file that is not as it should be: none that we did not write is to be deleted."""
    if begins_as_ours(path):
        return "delete the file and run snakemake again to make it anew"
    return "it does not begin as files of patebench do: give the right file, or put a good copy back"


def begins_as_ours(path: Path) -> bool:
    """Whether a file begins as `core.files` writes it, however damaged the rest is; one without content may be ours."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(64)
    except OSError:
        return True
    archive = head.startswith(b"PK\x03\x04") and head[30:39] == b"meta.json"
    return not head or archive or head.startswith(b'{\n "kind": "')
