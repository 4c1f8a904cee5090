"""Build the command of a stage from a function, with options for files, parameters and the random stream."""

import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

import click
from pydantic.fields import FieldInfo

from patebench import __version__
from patebench.core import workers
from patebench.core.errors import PatebenchError
from patebench.core.fields import Parameters, option_name
from patebench.core.progress import LogFile
from patebench.core.spelling import LEDGER_VARIABLES

if TYPE_CHECKING:
    from rich.table import Table

#: Option types for input and output files, which are told apart by identity.
FILE, _OUTPUT = click.Path(path_type=Path), click.Path(path_type=Path)
#: Annotation of a stage's argument for a file that the stage writes.
OutputFile = Annotated[Path, _OUTPUT]
#: Option types for a count, a number of classes, and a seed.
COUNT, CLASSES, SEED = click.IntRange(min=1), click.IntRange(min=2), click.IntRange(min=0)

#: Annotation of the argument `as_json` of a command, which becomes the option --json.
Json = Annotated[bool, "Print one JSON object."]


class Assignment(click.ParamType[tuple[str, Any]]):
    """Option type for KEY=VALUE, which converts the text to a pair (key, value).

    The value is a float if `number` is True, and text if it is False.
    """

    name = "key=value"

    def __init__(self, number: bool) -> None:
        self.number = number

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        key, equals, text = str(value).partition("=")
        if not key or not equals:
            self.fail(f"'{value}' is not of the form key=value", param, ctx)
        if not self.number:
            return key, text
        try:
            return key, float(text)
        except ValueError:
            self.fail(f"'{text}' is not a number (in '{value}')", param, ctx)


class TeacherRange(click.ParamType[tuple[int, int]]):
    """Option type for a range FIRST-LAST of teachers, which converts the text to (first, last), both included."""

    name = "first-last"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        first, dash, last = str(value).partition("-")
        if not (first.isdecimal() and dash and last.isdecimal()):
            self.fail(f"'{value}' is not of the form first-last, such as 0-24", param, ctx)
        return int(first), int(last)


class StageCommand(click.Command):
    """Command that checks options before it runs.

    PatebenchError is raised if a single-valued option is repeated, if an output would overwrite an input, or if two
    outputs are the same file.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        values, _, given = self.make_parser(ctx).parse_args(list(args))
        for option in given:
            if given.count(option) > 1 and not getattr(option, "multiple", False):
                raise PatebenchError(f"{option.opts[0]} is given twice; give it once")
        _check_outputs({option: values[option.name or ""] for option in given})
        return super().parse_args(ctx, args)


def _check_outputs(values: Mapping[click.Parameter, Any]) -> None:
    """Raise PatebenchError if an output file is also an input or another output.

    `values` maps each option to its text, or to its texts if the option may be repeated.
    """
    named: list[tuple[click.Parameter, str]] = []
    for option, value in values.items():
        texts = [text for text in (value if isinstance(value, list | tuple) else [value]) if isinstance(text, str)]
        named += [(option, text.partition("=")[2] if isinstance(option.type, Assignment) else text) for text in texts]
    outputs = [(option, text) for option, text in named if option.type is _OUTPUT]
    inputs = [(option, text) for option, text in named if option.type is not _OUTPUT and os.path.isfile(text)]
    for i, (option, path) in enumerate(outputs):
        for other, text in inputs + outputs[:i]:
            if os.path.realpath(text) == os.path.realpath(path):
                line = f"{path} is also given as {other.opts[0]} and would be overwritten; choose another file"
                raise PatebenchError(line, code="overwrites", where=option.opts[0])


def stage_command(
    run: Callable[..., None], *options: click.Parameter, cls: type[click.Command] = StageCommand
) -> click.Command:
    """Return the command that calls `run`, named after the module of `run`, with the docstring of `run` as its help.

    The command has options for the arguments of `run`, and the further options `options`. The annotation of an argument
    determines its options:

    - `Annotated[int, "Number of shards."]`: an option of type int with this help text.
    - `Annotated[int, "Number of shards.", COUNT]`: the same, but with the click type `COUNT`.
    - `Annotated[Sequence[int], "Numbers of shards."]`: an option that may be repeated.
    - a subclass of `Parameters`: one option per field.
    - `int`, for the argument `seed`: the options `--seed` and `--stream`.
    """
    declared: list[click.Parameter] = []
    models: dict[str, tuple[type[Parameters], bool]] = {}  # by argument: its class, and True if it is required
    hints = get_type_hints(run, include_extras=True)
    for name, argument in signature(run).parameters.items():
        hint = hints[name]
        kind, *_ = get_args(hint) or (hint,)
        if get_origin(hint) is Annotated:
            declared.append(_declared_option(name, hint, argument.default))
        elif name == "seed" and hint is int:
            declared += seeded
        elif isinstance(kind, type) and issubclass(kind, Parameters):
            models[name] = kind, kind is hint
            declared += [_option(key, field, kind is hint) for key, field in kind.model_fields.items()]

    def callback(**arguments: Any) -> None:
        for name, (model, needed) in models.items():
            arguments[name] = _take_parameters(arguments, model, needed)
        run(**arguments)

    command = run.__module__.rpartition(".")[2]
    return cls(command, callback=callback, params=[*declared, *options, _log], help=cleandoc(run.__doc__ or ""))


def _declared_option(name: str, hint: Any, default: Any) -> click.Option:
    """Return the option for the argument `name` of a stage; `hint` is the annotation, `default` the default value."""
    annotation, *details = get_args(hint)
    help = next(detail for detail in details if isinstance(detail, str))
    kind, several = _option_type(hint)
    settings: dict[str, Any] = {"type": kind}
    if kind is bool:
        settings = {"is_flag": True}
    elif several:
        settings |= {"multiple": True}
    elif default not in (Parameter.empty, None):
        settings |= {"default": default, "show_default": default != ""}
    needed = default is Parameter.empty and NoneType not in get_args(annotation) and kind is not bool
    word = "json" if name == "as_json" else option_name(name)
    return click.Option([f"--{word}", name], required=needed, help=help, **settings)


def _take_parameters(arguments: dict[str, Any], model: type[Parameters], needed: bool) -> Parameters | None:
    """Remove the values of the fields of `model` from `arguments`, and return them as a validated instance of `model`.

    If `needed` is False, the parameters are optional: the result is None if no field has a value.
    """
    values = {key: arguments.pop(_argument_name(key)) for key in model.model_fields}
    values = {key: value for key, value in values.items() if value is not None and value != ()}
    try:
        return model.checked(values) if values or needed else None
    except PatebenchError as fault:
        option = f"--{option_name(fault.where.partition('[')[0])}"
        message = str(fault).removeprefix(f"{fault.where}: ")
        raise PatebenchError(message, code=fault.code, where=option) from None


def _option(key: str, field: FieldInfo, needed: bool) -> click.Option:
    """Return the option for the field `key` of a `Parameters` class.

    The option is required if `needed` is True and the field has no default value.
    """
    kind, several = _option_type(field.annotation)
    names = [_argument_name(key), f"--{option_name(key)}" + (f"/--no-{option_name(key)}" if kind is bool else "")]
    default = "" if field.is_required() or field.default in (None, (), False) else f" [default: {field.default}]"
    settings: dict[str, Any] = {"multiple": True} if several else {"default": None}
    settings |= {} if kind is bool else {"type": kind}
    return click.Option(
        names, required=needed and field.is_required(), help=f"{field.description}{default}", **settings
    )


def _argument_name(key: str) -> str:
    """Return the name under which click passes the value of the field `key`.

    It starts with a prefix, so that it differs from the names of the command's other arguments.
    """
    return f"parameter_{key}"


def _option_type(annotation: Any) -> tuple[Any, bool]:
    """Return the option type for the type `annotation` of an argument, and True if the option may be repeated."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return _option_type(next(kind for kind in inner if kind is not NoneType))
    if origin is Annotated:
        kind, several = _option_type(inner[0])
        return next((detail for detail in inner[1:] if isinstance(detail, click.ParamType)), kind), several
    if origin is Sequence or Ellipsis in inner:
        return _option_type(inner[0])[0], True
    return FILE if annotation is Path else annotation, False


def _log_to(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    logger = logging.getLogger("patebench")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    if value is not None:
        logger.addHandler(LogFile(value))
        logger.info("patebench %s: %s", __version__, shlex.join(sys.argv[1:]))


def _set_torch_threads(threads: int) -> None:
    # OpenMP reads this when the stage imports torch.
    os.environ["OMP_NUM_THREADS"] = str(threads)


def _threads_option(set_threads: Callable[[int], None], default: Any = 1, shown: bool | str = True) -> click.Option:
    """Return the option --threads, which calls `set_threads` with its value.

    If `shown` is a text, it replaces the default value in the help.
    """
    return click.Option(
        ["--threads"], type=COUNT, default=default, show_default=shown, expose_value=False,
        callback=lambda ctx, param, value: set_threads(value), help="Number of processors to use.",
    )  # fmt: skip


def unique_pairs(ctx: click.Context, param: click.Parameter, value: Any) -> dict[str, Any]:
    """Return the (key, value) pairs in `value` as a mapping; raise PatebenchError if a key is repeated."""
    names = [name for name, _ in value]
    for name in names:
        if names.count(name) > 1:
            raise PatebenchError(f"{param.opts[0]} {name} is given twice; give it once")
    return dict(value)


def file_in_home(home: Path, name: str) -> Path:
    """Return the path of the file `name` in the repository folder `home`; raise PatebenchError if it is missing."""
    path = home / name
    if not path.exists():
        raise PatebenchError(
            f"{path} does not exist; run the command in your copy of the repository, or give the folder of this copy as"
            " --home"
        )
    return path


def show_on_terminal(content: Any) -> None:
    """Print a text or a table; tables are as wide as the terminal, or 120 columns without a terminal."""
    if isinstance(content, str):
        click.echo(content)
        return
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 120, highlight=False, markup=False).print(content)


def table_of(headings: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", numbers: int = 0) -> "Table":
    """Return a table for `show_on_terminal`, in which the last `numbers` columns are right-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for place, heading in enumerate(headings):
        right = place >= len(headings) - numbers
        table.add_column(heading, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for row in rows:
        table.add_row(*row)
    return table


#: Option for the folder of repository files, which are not part of the installed package.
home_option = click.Option(["--home"], type=FILE, default=".", help="Folder of the Snakefile.")

_log = click.Option(
    ["--log"], type=_OUTPUT, expose_value=False, callback=_log_to, is_eager=True, help="Write log lines to this file."
)

#: Option for the number of torch threads of a stage.
threads = _threads_option(_set_torch_threads)

#: Option for the number of processes of a stage; results do not depend on it.
processes = _threads_option(workers.set_processes)

#: Option for the number of processes of interactive commands, which use all processors by default.
all_processes = _threads_option(workers.set_processes, workers.available, "all")

#: Options for the random stream of a stage.
seeded = [
    click.Option(["--seed"], type=SEED, required=True, help="Base seed of the experiment."),
    click.Option(["--stream"], required=True, help="Name of the random stream."),
]

#: Options for the source of noise: a reproducible random stream, or the operating system for a release.
seeded_or_release = [
    click.Option(["--seed"], type=SEED, default=None, help="Base seed of the experiment."),
    click.Option(["--stream"], default=None, help="Name of the random stream."),
    click.Option(
        ["--release"], is_flag=True, help="Release: draw discrete noise once, from the operating system's entropy."
    ),
]

#: Option for the parameters of a mechanism, passed on as a mapping.
parameter_values = click.Option(
    ["--parameter", "parameters"], type=Assignment(number=True), multiple=True, callback=unique_pairs,
    help="Parameter of the mechanism, such as sigma=40; --sigma 40 is the same.",
)  # fmt: skip

#: Options for the name and the parameters of a mechanism.
mechanism = [
    click.Option(["--mechanism"], required=True, help="Name of the mechanism: lnmax, gnmax, …"),
    parameter_values,
]

#: Options for the ledger that registers releases, and for the total budget of a data set.
ledgered = [
    click.Option(["--ledger"], type=FILE, help="Folder of the ledgers; a release is entered here before it is drawn."),
    click.Option(
        ["--ledger-budget"],
        type=float,
        default=None,
        envvar=LEDGER_VARIABLES["budget"],
        help="Total ε budget for all releases of this data set, fixed with the first release.",
    ),
    click.Option(["--ledger-delta"], type=float, envvar=LEDGER_VARIABLES["delta"], help="δ of the budget."),
    click.Option(
        ["--private"],
        metavar="NAME",
        default=None,
        envvar=LEDGER_VARIABLES["private"],
        help="Permanent name of the private data; all releases under one name share a ledger, even if files change.",
    ),
]
