"""Commands with a mechanism, whose parameters are options: `--sigma 10` is the same as `--parameter sigma=10`.

The names of the parameters are read from the mechanisms.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import Field, fields
from typing import Any

import click
from click.shell_completion import CompletionItem

from patebench.cli.command import StageCommand, combine_options, mechanism
from patebench.core.errors import PatebenchError
from patebench.mechanisms import MECHANISMS

_NAME, _PARAMETER, _OWN_NAME = "--mechanism", "--parameter", "--mechanism-"


class MechanismCommand(StageCommand):
    """Command with one option per parameter of every mechanism; its function receives them as `parameters`.

    A parameter with the name of another option of the command is spelt `--mechanism-<name>`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            spelt_out = list(self._spelt_out(args))
        except click.UsageError as fault:
            fault.ctx = ctx
            raise
        return super().parse_args(ctx, spelt_out)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = self.params
        self.params = [*own, *self._options()]
        try:
            super().format_options(ctx, formatter)
        finally:
            self.params = own

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        mechanisms = [word for option in self._options() for word in option.opts if word.startswith(incomplete)]
        items = [CompletionItem(word) for word in mechanisms if incomplete.startswith("-")]
        return [*super().shell_complete(ctx, incomplete), *items]

    def _spelt_out(self, args: list[str]) -> Iterator[str]:
        """Yield the arguments with each `--sigma 10` replaced by `--parameter sigma=10`."""
        words = iter(args)
        for word in words:
            head, equals, value = word.partition("=")
            name = head.removeprefix("--").removeprefix(_OWN_NAME.removeprefix("--")).replace("-", "_")
            if not head.startswith("--") or head == "--" or head in self._words() or not _may_be(name, args):
                yield word
                continue
            number = value if equals else next(words, None)
            if number is None:
                raise click.UsageError(f"Option '{head}' requires an argument.")
            yield from (_PARAMETER, f"{name}={number}")

    def _words(self) -> set[str]:
        """Return the option strings of the command itself, such as --delta, without parameters of mechanisms."""
        return {"--help", *(word for param in self.params for word in (*param.opts, *param.secondary_opts))}

    def _options(self) -> list[click.Option]:
        """Return one option per parameter of any mechanism; used only for help and completion."""
        taken = self._words()
        return [_option(name, owners, taken) for name, owners in _parameters().items()]


def _may_be(name: str, args: list[str]) -> bool:
    """Return True if `name` is a parameter of the mechanism that `args` name, or of any mechanism.

    Return True also if that mechanism cannot be loaded; the command reports this error later, once the log is open.
    """
    named = [value for word, value in zip(args, [*args[1:], ""], strict=True) if word == _NAME]
    named += [word.partition("=")[2] for word in args if word.startswith(f"{_NAME}=")]
    try:
        own = {parameter for mechanism in named for parameter in MECHANISMS.load(mechanism).parameter_names()}
    except PatebenchError:
        return True
    return name in own or name in _parameters()


def _parameters() -> dict[str, list[tuple[str, "Field[Any]"]]]:
    """Return, by name of a parameter, the mechanisms that have it, with its field; skip those that cannot be loaded."""
    owners: dict[str, list[tuple[str, Field[Any]]]] = {}
    for name in MECHANISMS:
        with suppress(PatebenchError):
            for item in fields(MECHANISMS.load(name)):
                owners.setdefault(item.name, []).append((name, item))
    return owners


def _option(name: str, owners: list[tuple[str, "Field[Any]"]], taken: set[str]) -> click.Option:
    word = f"--{name.replace('_', '-')}"
    word = f"{_OWN_NAME}{name.replace('_', '-')}" if word in taken else word
    words = "; ".join(f"{owner}: {_limits(item)}" for owner, item in owners)
    return click.Option([word, f"shown_{name}"], type=float, help=f"Parameter of {words}.")


def _limits(item: "Field[Any]") -> str:
    from patebench.mechanisms.base import limits

    low, above, high = limits(item)
    least = f"above {low:g}" if above else f"at least {low:g}"
    return least if math.isinf(high) else f"{least}, at most {high:g}"


#: Options of commands that print the ε of one mechanism, as text or as JSON.
answering = combine_options(
    mechanism,
    click.option("--delta", type=float, required=True, help="δ of every ε."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    click.option("--release", is_flag=True, help="Use the bounds for labels released with discrete noise."),
)
