"""The command `ledger`: what was released from private data, and what that costs together."""

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
    """Show every draw from private data that stands in the ledgers at PLACE, and the ε of all together.

    PLACE is a folder of ledgers or one of its files [default: results/ledger]. A ledger knows only what was drawn with
    it: not what lies outside its folder, nor what was drawn from the same people's data in another form. With --private
    the data of the ledger, which PLACE then is, get a permanent name.
    """
    if delta is not None:
        check_delta(delta)
    if not place.exists():
        raise PatebenchError(f"{place}: there is no ledger; a release writes one, and so nothing was released with it")
    if private is not None:
        name_ledger(place, private)
    found = [Ledger.read(place)] if place.is_file() else Ledger.read_all(place)
    if as_json:
        show_on_terminal(json.dumps([_summary(each, delta) for each in found], indent=1, ensure_ascii=False))
        return
    for ledger in found:
        show_on_terminal(_shown(ledger, delta))
    click.echo("What was drawn elsewhere, or from another form of the same data, is not known here.")


def _delta(ledger: Ledger, delta: float | None) -> float:
    return delta or (ledger.limit.delta if ledger.limit else 1e-5)


def _summary(ledger: Ledger, delta: float | None) -> dict[str, Any]:
    at = _delta(ledger, delta)
    together = spending.epsilon(ledger.spent, at)
    draws = [
        {"what": each.what, "when": each.when, "mechanism": each.mechanism, "parameters": each.parameters}
        | {"queries": each.queries, "epsilon": in_json(spending.epsilon([each.spent], at))}
        for each in ledger.entries
    ]
    facts = {"ledger": str(ledger.path), "private": ledger.private, "delta": at, "epsilon": in_json(together)}
    return {**facts, "limit": ledger.kept, "draws": draws}


def _shown(ledger: Ledger, delta: float | None) -> "RenderableType":
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
    for each in summary["draws"]:
        setting = " ".join([each["mechanism"], *(f"{name}={value:g}" for name, value in each["parameters"].items())])
        table.add_row(each["when"], each["what"], setting, str(each["queries"]), four_digits(float(each["epsilon"])))
    return Group(table, *_sentences(ledger, summary))


def _sentences(ledger: Ledger, summary: dict[str, Any]) -> Sequence[str]:
    together = four_digits(float(summary["epsilon"]))
    found = [f"Together: ε = {together} at δ = {summary['delta']:g}, as if planned beforehand."]
    if ledger.limit:
        limit = ledger.limit
        found.append(f"Their limit: ε = {limit.budget:g} at δ = {limit.delta:g}, whatever was chosen on the way.")
    return found


command = stage_command(
    run,
    click.argument("place", type=FILE, default="results/ledger"),
    click.option(
        "--delta", type=float, default=None,
        help="δ of every ε [default: that of the limit, or 1e-5].",
    ),
    click.option("--private", metavar="NAME", default=None, help="Give the data of the ledger PLACE this name."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)  # fmt: skip
