"""The one exception that users are meant to see: a single line that says what is wrong, where, and what to do."""

from pathlib import Path


class PatebenchError(Exception):
    """A fault that the user can mend; the command line prints it as one line and exits with status 2."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class ArtefactError(PatebenchError):
    """A file that is missing, damaged, or not what the stage needs."""

    def __init__(self, path: Path | str, fault: str, mend: str | None = None) -> None:
        mend = mend or "delete the file and run snakemake again to make it anew"
        super().__init__(f"{path}: {fault}; {mend}.")
        self.path = Path(path)
