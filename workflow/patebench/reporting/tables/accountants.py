"""Every mechanism under every accountant: one row per release and number of queries, one column per way to count."""

from typing import TYPE_CHECKING

from patebench.core.bound import Conversion, Kind
from patebench.reporting.accountants import SUBJECT
from patebench.reporting.frames import Records, arrange, spread
from patebench.reporting.published import Published
from patebench.reporting.tables.table import SUBJECT_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd

_SOUND, _LEAKY, _CLEAN = Kind.WORST_CASE, Kind.DATA_DEPENDENT, Kind.SANITISED
_CLASSIC, _TIGHT, _NONE = Conversion.CLASSIC, Conversion.TIGHT, Conversion.NONE
_GROUPS = {
    _SOUND: "ε, worst case, publishable",
    _CLEAN: "ε, sanitised",
    _LEAKY: "ε, data-dependent, not publishable",
}

#: Columns: title, kind, and which accountants and conversions it shows (of several the least ε).
_COLUMNS = (
    ("strong composition", _SOUND, ("strong-composition",), (_NONE,)),
    ("basic", _SOUND, ("basic",), (_NONE,)),
    ("moments, l ≤ 8", _SOUND, ("moments",), (_CLASSIC,)),
    ("Rényi", _SOUND, ("rdp",), (_TIGHT,)),
    ("Gaussian DP, PLD", _SOUND, ("gdp", "pld", "pld-channel", "bounded-range"), (_NONE,)),
    ("Rényi", _CLEAN, ("rdp-sanitised",), (_CLASSIC, _TIGHT, _NONE)),
    ("moments, l ≤ 8", _LEAKY, ("moments",), (_CLASSIC,)),
    ("Rényi, as published", _LEAKY, ("rdp",), (_CLASSIC,)),
    ("Rényi", _LEAKY, ("rdp",), (_TIGHT,)),
    ("exact", _LEAKY, ("exact", "exact-split"), (_TIGHT, _NONE)),
    ("exact per teacher", _LEAKY, ("exact-per-teacher", "exact-split-per-teacher"), (_TIGHT, _NONE)),
)


def _field(title: str, kind: Kind) -> str:
    words = title.replace(",", "").replace("≤ ", "").replace("é", "e").lower().split()
    return "_".join([kind, *words])


_FIELDS = {_field(title, kind): (kind, names, how) for title, kind, names, how in _COLUMNS}


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per release, number of queries and δ; NaN where an accountant does not bound the mechanism."""
    frame = spread(records.bounds, SUBJECT, ["epsilon"])[[*SUBJECT, "seeds"]]
    for field, (kind, names, how) in _FIELDS.items():
        chosen = _chosen(records.bounds, kind, names, how).rename(columns={"epsilon": field})
        found = spread(chosen, SUBJECT, [field]).drop(columns="seeds")
        frame = frame.merge(found, on=SUBJECT, how="left")
    return arrange(frame, SUBJECT)


def _chosen(bounds: "pd.DataFrame", kind: Kind, names: tuple[str, ...], how: tuple[Conversion, ...]) -> "pd.DataFrame":
    """The least ε of these accountants for each subject and seed."""
    wanted = bounds["accountant"].isin(names) & (bounds["kind"] == kind) & bounds["conversion"].isin(how)
    return bounds[wanted].groupby([*SUBJECT, "seed"], dropna=False)["epsilon"].min().reset_index()


TABLE = Table(
    title="Every mechanism under every accountant",
    columns=(
        *SUBJECT_COLUMNS,
        *(
            Column(f"{_field(title, kind)}_mean", title, "epsilon", group=_GROUPS[kind], optional=True)
            for title, kind, _, _ in _COLUMNS
        ),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
