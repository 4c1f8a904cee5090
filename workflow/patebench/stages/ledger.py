"""Command `ledger`: show all releases from private data and their total ε."""

import json
from pathlib import Path
from typing import Annotated, Any

import click

from patebench.accounting import spending
from patebench.calculator.show import four_digits
from patebench.cli.command import FILE, Json, show_on_terminal, stage_command, table_of
from patebench.core.bound import check_delta
from patebench.core.errors import PatebenchError
from patebench.core.text import in_json
from patebench.data.partitions import changes_in_words
from patebench.release.ledger_file import Ledger, name_ledger


def run(
    *,
    place: Path,
    delta: Annotated[float | None, "δ of every ε [default: δ of the limit, or 1e-5]."],
    as_json: Json,
    private: Annotated[str | None, "Permanent name for the data of the ledger PLACE."] = None,
) -> None:
    """Show all draws (uses of noise on private data) in the ledgers at PLACE, and the total ε per ledger.

    PLACE is a folder of ledgers or one ledger file [default: results/ledger]. A ledger contains only the draws that
    were entered in its folder.

    Two data files of the same people have separate ledgers, and the ε of separate ledgers are not added. Data files
    with the same permanent name share one ledger. With --private, the data of the ledger file PLACE get a permanent
    name. In commands that draw noise, --private names the data that are used.
    """
    if delta is not None:
        check_delta(delta)
    if not place.exists():
        raise PatebenchError(f"{place} does not exist; give a folder of ledgers, or the file of one ledger")
    if private is not None:
        name_ledger(place, private)
    ledgers = [Ledger.read(place)] if place.is_file() else Ledger.read_all(place)
    if as_json:
        show_on_terminal(json.dumps([_summarise(ledger, delta) for ledger in ledgers], indent=1, ensure_ascii=False))
        return
    for ledger in ledgers:
        _show(ledger, _summarise(ledger, delta))
    click.echo("Draws entered in other folders, or from the same data in another form, are not included.")


def _summarise(ledger: Ledger, delta: float | None) -> dict[str, Any]:
    """Return the entries of `ledger` as a dict, with the ε of each entry and of all entries together at `delta`.

    An entry is one use of noise on private data. If `delta` is None, the δ of the ledger's limit is used or, without a
    limit, 1e-5. Each entry protects against some changes of the data, such as a replaced record. The ε of all entries
    together holds only for changes that are common to all entries. This ε is None if no change is common to all
    entries.
    """
    at = delta or (ledger.limit.delta if ledger.limit else 1e-5)
    changes = spending.common_changes(ledger.spent)
    together = in_json(spending.epsilon(ledger.spent, at)) if changes else None
    draws = [
        {"what": entry.what, "when": entry.when, "mechanism": entry.mechanism, "parameters": entry.parameters}
        | {"queries": entry.queries, "epsilon": in_json(spending.epsilon([entry.spent], at))}
        for entry in ledger.entries
    ]
    facts = {"ledger": str(ledger.path), "private": ledger.private, "delta": at, "epsilon": together}
    return {**facts, "protects": changes, "limit": ledger.limit_in_json, "draws": draws}


def _show(ledger: Ledger, summary: dict[str, Any]) -> None:
    rows = []
    for draw in summary["draws"]:
        parameters = [f"{name}={float(value):g}" for name, value in draw["parameters"].items()]  # ∞ is the text "inf"
        setting = " ".join([draw["mechanism"], *parameters])
        epsilon = four_digits(float(draw["epsilon"]))
        rows.append([draw["when"], draw["what"], setting, str(draw["queries"]), epsilon])
    title = f"{ledger.private} ({ledger.path})" if ledger.private else str(ledger.path)
    show_on_terminal(table_of(["drawn", "what", "mechanism", "queries", "ε alone"], rows, title=title, numbers=2))
    if not summary["protects"]:
        click.echo("Together: no ε, because no change of the data is protected by all draws.")
        return
    together = f"ε = {four_digits(float(summary['epsilon']))} at δ = {summary['delta']:g}"
    click.echo(f"Together: {together}, for {changes_in_words(summary['protects'])}.")
    click.echo("This is valid if all draws were planned beforehand.")
    if limit := ledger.limit:
        click.echo(f"Limit: ε = {limit.budget:g} at δ = {limit.delta:g}, also valid for adaptively chosen draws.")


command = stage_command(run, click.Argument(["place"], type=FILE, default="results/ledger"))
