"""Write docs/reference/commands.md, the list of all commands: `python -m patebench.cli.page`.

The website adds the options of each command.
"""

import importlib
from collections.abc import Iterator

import click

from patebench.cli import COMMANDS, cli

_HEAD = """# Commands

`patebench COMMAND --help` shows the options of a command; the website lists all of them on this page. An error is
reported in one line with exit status 2; `audit` and `check` have exit status 1 if anything is violated. `make pages`
generates this list.

| command | description |
|---|---|
"""


def page() -> str:
    """Return the page docs/reference/commands.md, a table of all commands, as Markdown."""
    rows = [f"| `{name}` | {_cell(_paragraphs(command)[0])} |\n" for name, command in _commands()]
    return _HEAD + "".join(rows)


def options() -> str:
    """Return a Markdown section per command, with its usage and a table of its options."""
    return "\n".join(_section(f"patebench {name}", command, 2) for name, command in _commands())


def _commands() -> list[tuple[str, click.Command]]:
    """Return (name, command) for each command, in the order of the help.

    `audit` and `audit --adjacency` are two entries, because they have different options.
    """
    context = click.Context(cli, info_name="patebench")
    commands = [(name, command) for name in COMMANDS if (command := cli.get_command(context, name))]
    place = [name for name, _ in commands].index("audit") + 1
    adjacency: click.Command = importlib.import_module("patebench.stages.adjacency").command
    commands.insert(place, ("audit --adjacency", adjacency))
    return commands


def _paragraphs(command: click.Command) -> list[str]:
    return [" ".join(part.split()) for part in (command.help or "").split("\n\n")]


def _section(name: str, command: click.Command, level: int) -> str:
    context = click.Context(command, info_name=name)
    usage = command.get_usage(context).removeprefix("Usage: ")
    lines = [f"{'#' * level} `{name}`", f"    {' '.join(usage.split())}", *_paragraphs(command)]
    if rows := list(_rows(command, context)):
        lines.append("\n".join(["| option | value | description |", "|---|---|---|", *rows]))
    text = "\n\n".join(line for line in lines if line) + "\n"
    if isinstance(command, click.Group):
        subsections = [_section(f"{name} {part}", below, level + 1) for part, below in command.commands.items()]
        text = "\n".join([text, *subsections])
    return text


def _rows(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield one Markdown table row per option of `command`, without the options that set parameters of mechanisms."""
    for option in command.params:
        record = option.get_help_record(context)
        if record and isinstance(option, click.Option):
            names, about = record
            spelt, _, kind = names.partition(" ")
            if ", " in names or " / " in names:
                spelt, kind = names, ""
            yield "| " + " | ".join(_cell(text) for text in (f"`{spelt}`", kind, about)) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    click.echo(page(), nl=False)
