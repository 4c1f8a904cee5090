"""Write settings as text: slugs (folder names), words of commands, and names of environment variables.

Slugs are never parsed, because the artefact in the folder stores the settings, too.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from patebench.core.checks import quote
from patebench.core.errors import PatebenchError

#: Part of a slug: a word, a name with its value, or None, which is left out.
Part = str | None | tuple[str, str | float | None]


def number(value: float) -> str:
    """Return a number as text for slugs and command lines: at most 12 significant digits, no trailing zeros."""
    return format(value, ".12g")


def slug(*parts: Part) -> str:
    """Return `parts` as a folder name: ("skew", 0.8), "mlp", ("epochs", 5) gives "skew-0.8_mlp_epochs-5".

    Parts are joined by "_". A string is unchanged. A pair becomes `name-value`, with dashes for underscores in the name
    and floats formatted by `number`. None and pairs with the value None are left out.
    """
    return "_".join(word for part in parts if (word := _word(part)) is not None)


def parameters_slug(parameters: Mapping[str, float]) -> str:
    """Return the slug of a mechanism's parameters in the given order, such as "sigma1-4_sigma2-10"."""
    return slug(*(f"{name}-{number(value)}" for name, value in parameters.items()))


def _word(part: Part) -> str | None:
    if part is None or isinstance(part, str):
        return part
    name, value = part
    if value is None:
        return None
    return f"{name.replace('_', '-')}-{_text(value)}"


def command_words(options: Mapping[str, Any]) -> list[str]:
    """Return `options` as words of a command.

    A value is text, a number, a bool (--x or --no-x), a sequence (the option is repeated), a mapping (the option is
    repeated with key=value) or None (left out).
    """
    return [word for name, value in options.items() for word in _words(name, value)]


def shell_words(options: Mapping[str, Any]) -> str:
    """Return `options` as one string, quoted for a shell."""
    return shlex.join(command_words(options))


def check_passed_on(texts: Iterable[str]) -> None:
    """Raise PatebenchError for a path or value in `texts` that the shell of a cluster would change.

    Such a text contains a single quote and, in addition, a dollar sign, a backtick, a double quote or a backslash.
    Snakemake encloses text with a single quote in double quotes, and there the shell interprets the other four
    characters.
    """
    for text in texts:
        if "'" in text and set(text) & set('$`"\\'):
            raise PatebenchError(
                f"{quote(text)} contains a single quote and one of $ ` \" \\, so a cluster's shell would change it; use"
                " another name, or put the value into a configuration file"
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


#: Environment variable for the folder of downloaded data sets; overrides `data_root` of a configuration.
DATA_VARIABLE = "PATEBENCH_DATA"

#: Environment variables, by parameter, for the total (ε, δ) of all releases from one private data set and its name.
LEDGER_VARIABLES = {
    "budget": "PATEBENCH_LEDGER_BUDGET",
    "delta": "PATEBENCH_LEDGER_DELTA",
    "private": "PATEBENCH_LEDGER_PRIVATE",
}
