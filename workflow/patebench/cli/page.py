"""The page of all commands, docs/commands.md, made from the commands themselves: `python -m patebench.cli.page`."""

import importlib
from collections.abc import Iterator

import click

from patebench.cli import COMMANDS, cli

_HEAD = """# Commands

Every command and its options, as `patebench COMMAND --help` shows them; this page is made by `make pages`. The first
ones are the stages of the workflow, which calls them by these names. What is wrong is one line with exit status 2;
`audit` and `check` have status 1 if anything is violated.
"""


def page() -> str:
    """Return all commands in Markdown."""
    context = click.Context(cli, info_name="patebench")
    found = [(name, command) for name in COMMANDS if (command := cli.get_command(context, name))]
    place = [name for name, _ in found].index("audit") + 1
    adjacency: click.Command = importlib.import_module("patebench.stages.adjacency").command
    found.insert(place, ("audit --adjacency", adjacency))
    return "\n".join([_HEAD, *(_section(f"patebench {name}", command, 2) for name, command in found)])


def _section(name: str, command: click.Command, level: int) -> str:
    context = click.Context(command, info_name=name)
    usage = command.get_usage(context).removeprefix("Usage: ")
    about = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    lines = [f"{'#' * level} `{name}`", f"    {' '.join(usage.split())}", *about]
    if rows := list(_rows(command, context)):
        lines.append("\n".join(["| option | | what it is |", "|---|---|---|", *rows]))
    text = "\n\n".join(line for line in lines if line) + "\n"
    if isinstance(command, click.Group):
        below = [_section(f"{name} {each}", part, level + 1) for each, part in command.commands.items()]
        text = "\n".join([text, *below])
    return text


def _rows(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield a row of the table for each option except those of mechanisms, which have docs of their own."""
    for option in command.params:
        record = option.get_help_record(context)
        if record and isinstance(option, click.Option) and not (option.help or "").startswith("Parameter of "):
            names, about = record
            spelt, _, kind = names.partition(" ")
            if ", " in names or " / " in names:
                spelt, kind = names, ""
            yield "| " + " | ".join(_cell(text) for text in (f"`{spelt}`", kind, about)) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    click.echo(page(), nl=False)
