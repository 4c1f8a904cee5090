"""Command `ledger`: show all releases from private data and their total ε."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patebench.accounting import spending
from patebench.calculator.show import four_digits
from patebench.cli.command import FILE, stage_command
from patebench.cli.terminal import show_on_terminal
from patebench.core.bound import check_delta
from patebench.core.errors import PatebenchError
from patebench.core.text import in_json
from patebench.release.ledger_file import Ledger, name_ledger

if TYPE_CHECKING:
    from rich.console import RenderableType


def run(*, place: Path, delta: float | None, as_json: bool, private: str | None = None) -> None:
    """Show every draw that is entered in the ledgers at PLACE, and the total ε per ledger.

    PLACE is a folder of ledgers or one ledger file [default: results/ledger]. A ledger contains only the draws that
    were entered in its folder. Draws from the same people's data in another form are in another ledger, unless the data
    has a name. With --private, give the data of the ledger file PLACE a permanent name.
    """
    if delta is not None:
        check_delta(delta)
    if not place.exists():
        raise PatebenchError(f"{place}: there is no ledger; nothing has been released with it")
    if private is not None:
        name_ledger(place, private)
    ledgers = [Ledger.read(place)] if place.is_file() else Ledger.read_all(place)
    if as_json:
        show_on_terminal(json.dumps([_summary(ledger, delta) for ledger in ledgers], indent=1, ensure_ascii=False))
        return
    for ledger in ledgers:
        show_on_terminal(_table(ledger, delta))
    click.echo("Draws made elsewhere, or from the same data in another form, are not included.")


def _delta(ledger: Ledger, delta: float | None) -> float:
    return delta or (ledger.limit.delta if ledger.limit else 1e-5)


def _summary(ledger: Ledger, delta: float | None) -> dict[str, Any]:
    at = _delta(ledger, delta)
    together = spending.epsilon(ledger.spent, at)
    draws = [
        {"what": entry.what, "when": entry.when, "mechanism": entry.mechanism, "parameters": entry.parameters}
        | {"queries": entry.queries, "epsilon": in_json(spending.epsilon([entry.spent], at))}
        for entry in ledger.entries
    ]
    facts = {"ledger": str(ledger.path), "private": ledger.private, "delta": at, "epsilon": in_json(together)}
    return {**facts, "limit": ledger.kept, "draws": draws}


def _table(ledger: Ledger, delta: float | None) -> "RenderableType":
    from rich import box
    from rich.console import Group
    from rich.table import Table

    summary = _summary(ledger, delta)
    title = f"{ledger.private} ({ledger.path})" if ledger.private else str(ledger.path)
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for heading in ("drawn", "what", "mechanism"):
        table.add_column(heading, overflow="fold")
    for heading in ("queries", "ε alone"):
        table.add_column(heading, justify="right", no_wrap=True)
    for draw in summary["draws"]:
        setting = " ".join([draw["mechanism"], *(f"{name}={value:g}" for name, value in draw["parameters"].items())])
        table.add_row(draw["when"], draw["what"], setting, str(draw["queries"]), four_digits(float(draw["epsilon"])))
    return Group(table, *_sentences(ledger, summary))


def _sentences(ledger: Ledger, summary: dict[str, Any]) -> Sequence[str]:
    together = four_digits(float(summary["epsilon"]))
    lines = [f"Together: ε = {together} at δ = {summary['delta']:g}, as if planned beforehand."]
    if ledger.limit:
        limit = ledger.limit
        lines.append(f"Limit: ε = {limit.budget:g} at δ = {limit.delta:g}, also valid for adaptively chosen draws.")
    return lines


command = stage_command(
    run,
    click.argument("place", type=FILE, default="results/ledger"),
    click.option(
        "--delta", type=float, default=None,
        help="δ of every ε [default: that of the limit, or 1e-5].",
    ),
    click.option("--private", metavar="NAME", default=None, help="Permanent name for the data of the ledger PLACE."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)  # fmt: skip
