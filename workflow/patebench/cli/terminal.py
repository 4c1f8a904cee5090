"""Print text and tables on the terminal."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table


def show_on_terminal(words: Any) -> None:
    """Print text unchanged, and a table as wide as the terminal (120 columns if there is none)."""
    if isinstance(words, str):
        click.echo(words)
        return
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 120, highlight=False, markup=False).print(words)


def table_of(headings: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", numbers: int = 0) -> "Table":
    """Return a table for `show_on_terminal`; the last `numbers` columns are right-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for place, heading in enumerate(headings):
        right = place >= len(headings) - numbers
        table.add_column(heading, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for row in rows:
        table.add_row(*row)
    return table
