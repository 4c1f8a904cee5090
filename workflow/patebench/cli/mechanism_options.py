"""Commands that accept the parameters of a mechanism as options: `--sigma 10` is the same as `--parameter sigma=10`.

The names of these options come from the mechanisms.
"""

import math
from dataclasses import fields

import click

from patebench.cli.command import StageCommand, mechanism
from patebench.core.errors import PatebenchError
from patebench.mechanisms import MECHANISMS


class MechanismCommand(StageCommand):
    """Command with an option for each parameter of every mechanism.

    The function of the command gets the values as one argument, the mapping `parameters`. The option of the parameter
    NAME is `--NAME`, or `--mechanism-NAME` if the command already has an option `--NAME`.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        taken = {word for option in own for word in (*option.opts, *option.secondary_opts)}
        return [*own, *_parameter_options(taken)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        lenient = click.Context(self, ignore_unknown_options=True)
        named = self.make_parser(lenient).parse_args(list(args))[0].get("mechanism")
        if named and not _can_load(named):  # its options are unknown; the command reports why it cannot be loaded
            ctx.ignore_unknown_options = ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        for word in [word for word in ctx.params if word.startswith(_VALUE)]:
            name, value = word.removeprefix(_VALUE), ctx.params.pop(word)
            if value is not None:
                if name in ctx.params["parameters"]:
                    raise PatebenchError(f"the parameter {name} is given twice; give it once")
                ctx.params["parameters"][name] = value
        return rest


def _can_load(mechanism_name: str) -> bool:
    """Return True if the mechanism can be imported, which may fail for mechanisms of other packages."""
    try:
        MECHANISMS.load(mechanism_name)
    except PatebenchError:
        return False
    return True


#: Prefix of the argument names of options for parameters.
_VALUE = "mechanism_parameter_"


def _parameter_options(taken_words: set[str]) -> list[click.Option]:
    """Return one option per parameter name of all mechanisms.

    The option is --NAME, or --mechanism-NAME if --NAME is in `taken_words`.
    """
    from patebench.mechanisms.base import limits

    owners: dict[str, list[str]] = {}
    for mechanism_name in MECHANISMS:
        for item in fields(MECHANISMS.load(mechanism_name)) if _can_load(mechanism_name) else ():
            low, above, high = limits(item)
            most = "" if math.isinf(high) else f", at most {high:g}"
            limit = f"{'above' if above else 'at least'} {low:g}{most}"
            owners.setdefault(item.name, []).append(f"{mechanism_name}: {limit}")
    options = []
    for name, about in owners.items():
        word = name.replace("_", "-")
        word = f"--mechanism-{word}" if f"--{word}" in taken_words else f"--{word}"
        options.append(click.Option([word, _VALUE + name], type=float, help=f"Parameter of {'; '.join(about)}."))
    return options


#: Options of commands that print the ε of one mechanism, as text or as JSON.
answering = [
    *mechanism,
    click.Option(["--delta"], type=float, required=True, help="δ of every ε."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object."),
    click.Option(["--release"], is_flag=True, help="Use the bounds for labels released with discrete noise."),
]
