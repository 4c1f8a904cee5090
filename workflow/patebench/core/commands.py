"""Commands: options as words for a shell, and paths that Snakemake can pass on."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from patebench.core.errors import PatebenchError
from patebench.core.parameters import show
from patebench.core.slugs import number


def words(options: Mapping[str, Any]) -> list[str]:
    """Return options as words of a command.

    A value is text, a number, a truth value (--x or --no-x), a sequence (the option is repeated), a mapping (the option
    is repeated with key=value) or None (left out).
    """
    return [word for name, value in options.items() for word in _words(name, value)]


def shell_words(options: Mapping[str, Any]) -> str:
    """Return options as text for a shell, quoted."""
    return shlex.join(words(options))


def check_passed_on(texts: Iterable[str]) -> None:
    """Refuse paths and values that Snakemake would pass to a cluster's shell unprotected; PatebenchError names one.

    Snakemake quotes them as Python does: inside double quotes, where a single quote stands, the shell expands `$`.
    """
    for text in texts:
        if "'" in text and set(text) & set('$`"\\'):
            raise PatebenchError(
                f"{show(text)} contains a single quote beside $, `, a double quote or a backslash, which Snakemake "
                "does not pass on to a cluster unchanged; use another name, or put the value into a configuration file"
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
            yield f"--{name}"
            yield _text(value)


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
