"""A job's command, word by word: what its log shows, and what can be run by hand."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from patebench.core.errors import PatebenchError
from patebench.core.files import write_text
from patebench.core.parameters import show
from patebench.core.slugs import number
from patebench.plan.jobs import Options

#: A shell's word may hold 128 KiB in Linux, and Snakemake hands the whole command over as one.
LONGEST = 100_000


def words(options: Options) -> list[str]:
    """Options as words of a command."""
    return [word for name, value in options.items() for word in _words(name, value)]


def shell(command: Sequence[str], long: Path) -> str:
    """A command as text for a shell, quoted; one that is too long becomes `@long`, a file that holds its words."""
    text = shlex.join(command)
    if len(text.encode()) <= LONGEST:
        return text
    write_text(long, json.dumps(command))
    return shlex.quote(f"@{long}")


def check_handed_on(texts: Iterable[str]) -> None:
    """Refuse paths and values that Snakemake would give to a cluster's shell unprotected; PatebenchError names one.

    It quotes what it hands on to other machines as Python does: where there is a single quote, `$` is the shell's.
    """
    for text in texts:
        if "'" in text and set(text) & set('$`"\\'):
            raise PatebenchError(
                f"{show(text)} holds a single quote beside $, `, a double quote or a backslash, which Snakemake does "
                "not hand on to a cluster as they are; use another name, or write the value into a configuration file"
            )


def _words(name: str, value: Any) -> Iterator[str]:
    match value:
        case None:
            return
        case bool():
            yield f"--{name}" if value else f"--no-{name}"
        case Mapping():
            yield from _words(name, [f"{key}={_text(item)}" for key, item in value.items()])
        case list() | tuple():
            for item in value:
                yield from _words(name, item)
        case _:
            yield from ([f"--{name}"] if name else [])
            yield _text(value)


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
