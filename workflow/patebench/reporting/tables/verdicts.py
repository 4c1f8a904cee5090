"""Every number that the papers of this run print, what was measured, and the verdict."""

from typing import TYPE_CHECKING, Any

from patebench.reporting.frames import Records
from patebench.reporting.published import Published, is_accuracy
from patebench.reporting.tables.table import Column, Table
from patebench.reporting.verdicts import Verdict, verdicts

if TYPE_CHECKING:
    import pandas as pd


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per printed number and setting of ours that measured it; of each paper what was measured comes first."""
    import pandas as pd

    frame = verdicts(records, published)
    papers = list(dict.fromkeys(frame["paper"]))
    rows = sorted(frame.to_dict("records"), key=lambda row: (papers.index(row["paper"]), _after(row)))
    measured: list[Any] = [_measured(row) for row in rows]
    return pd.DataFrame(rows, columns=frame.columns).assign(
        what=[_what(row) for row in rows],
        printed=[_shown(row["quantity"], row["published"]) for row in rows],
        measured=measured,
    )


def _after(row: dict[Any, Any]) -> int:
    """What was measured comes first, then what could be, then what the paper chose or what can not be compared."""
    if row["measured_mean"] == row["measured_mean"]:
        return 0
    return 1 if row["verdict"] == Verdict.NOT_RUN else 2


def _what(row: dict[Any, Any]) -> str:
    """The quantity; what a paper chose is called as it calls it."""
    return str(row["column"]) if row["quantity"] == "setting" else str(row["quantity"]).replace("_", " ")


def _shown(quantity: Any, value: float, digits: int = 4) -> str:
    return f"{100 * value:.2f} %" if is_accuracy(quantity) else f"{value:.{digits}g}"


def _measured(row: dict[Any, Any]) -> str | None:
    mean, deviation = row["measured_mean"], row["measured_std"]
    if mean != mean:
        return None
    shown = _shown(row["quantity"], mean)
    if deviation != deviation:
        return shown
    return f"{shown} ± {_shown(row['quantity'], deviation, digits=2).removesuffix(' %')}"


TABLE = Table(
    title="A verdict on every printed number",
    columns=(
        Column("paper", "Paper"),
        Column("table", "Table"),
        Column("row", "Row"),
        Column("what", "What"),
        Column("printed", "Printed"),
        Column("measured", "Measured"),
        Column("seeds", "Seeds", "count"),
        Column("how", "By our"),
        Column("verdict", "Verdict"),
        Column("worst_case", "worst case", "epsilon", group="ε"),
        Column("exact", "exact, not publishable", "epsilon", group="ε"),
        Column("audited", "audited, at least", "audited", group="ε"),
        Column("why", "Why, or how to run it"),
    ),
    build=build,
    folded=True,
)
