"""Commands whose options are the parameters of whatever mechanisms there are, read from the mechanisms themselves."""

import math
from collections.abc import Iterable
from dataclasses import Field, fields
from typing import Any

import click

from patebench.core.errors import PatebenchError
from patebench.stages.command import mechanism_name, together

_PREFIX = "parameter_"


class MechanismCommand(click.Command):
    """A command with an option for each parameter of each mechanism; its function gets them as `parameters`.

    A parameter whose name the command uses itself is spelt `--mechanism-<name>`. Faults are one line.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        taken = {word for option in own for word in option.opts}
        return [*own, *(_option(name, owners, taken) for name, owners in _parameters().items())]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as fault:
            raise PatebenchError(f"{fault.format_message()} See {ctx.command_path} --help.") from None
        given = {name: ctx.params.pop(name) for name in list(ctx.params) if name.startswith(_PREFIX)}
        ctx.params["parameters"] = {
            name.removeprefix(_PREFIX): value for name, value in given.items() if value is not None
        }
        return rest


def _parameters() -> dict[str, list[tuple[str, Field[Any]]]]:
    """For each name of a parameter, the mechanisms that have one and what they say of it."""
    from patebench.mechanisms import MECHANISMS

    found: dict[str, list[tuple[str, Field[Any]]]] = {}
    for mechanism in MECHANISMS:
        for item in fields(MECHANISMS.load(mechanism)):
            found.setdefault(item.name, []).append((mechanism, item))
    return found


def _option(name: str, owners: list[tuple[str, Field[Any]]], taken: Iterable[str]) -> click.Option:
    word = f"--{name.replace('_', '-')}"
    word = f"--mechanism-{name.replace('_', '-')}" if word in taken else word
    words = "; ".join(f"{mechanism}: {_limits(item)}" for mechanism, item in owners)
    return click.Option([word, f"{_PREFIX}{name}"], type=float, default=None, help=f"Parameter of {words}.")


def _limits(item: Field[Any]) -> str:
    low, above, high = (item.metadata[key] for key in ("low", "above", "high"))
    least = f"above {low:g}" if above else f"at least {low:g}"
    return least if math.isinf(high) else f"{least}, at most {high:g}"


#: Commands that answer a question on the terminal, for one mechanism, in words or as JSON.
answering = together(
    mechanism_name,
    click.option("--delta", type=float, required=True, help="δ of every ε."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    click.option("--release", is_flag=True, help="By what holds for labels released with discrete noise."),
)
