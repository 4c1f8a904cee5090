"""What commands beside the workflow print."""

import sys
from typing import Any

import click


def show_on_terminal(words: Any) -> None:
    """Words as they are, tables as wide as the terminal, or wide enough where there is none."""
    if isinstance(words, str):
        click.echo(words)
        return
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 120, highlight=False, markup=False).print(words)
