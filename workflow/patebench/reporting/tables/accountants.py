"""Every mechanism under every accountant: one row per set of labels and T, one column per way to count."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from patebench.core.bound import Conversion, Kind
from patebench.reporting.frames import Records, arrange, least, natural, over_seeds
from patebench.reporting.outcomes import SUBJECT
from patebench.reporting.published import Published
from patebench.reporting.tables.table import SUBJECT_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd

#: The kinds of ε that are proven, in the order of the table, and what is said above their columns.
_GROUPS = {
    Kind.WORST_CASE: "ε, worst case, of fresh noise",
    Kind.SANITISED: "ε, sanitised",
    Kind.DATA_DEPENDENT: "ε, data-dependent, not publishable",
}
#: Added where a paper converts a Rényi curve in the classic way, and the tight one is beside it.
_CLASSIC = ", as published"
#: Between kind and heading in the name of a column. No kind holds it, so the rest is the heading as it is.
_OF = ": "
#: From the crudest to the tightest: the order that is preferred in each group. It hides nothing: any other heading has
#: its column after these, in natural order, and a heading here that no bound has makes none.
_ORDER = (
    *("strong composition", "basic", "moments, l ≤ 8", "Rényi" + _CLASSIC, "Rényi", "Gaussian DP, PLD"),
    *("exact", "exact per teacher"),
)


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per set of labels of the whole pool, number of queries and δ; NaN where an accountant gives no bound.

    A column for each kind and heading of bounds in the records; of several bounds with one heading the least ε.
    """
    bounds = records.of_whole_pool().bounds
    frame = over_seeds(bounds, SUBJECT, ["epsilon"])[[*SUBJECT, "seeds"]]
    bounds = bounds[bounds["kind"].isin(list(_GROUPS)) & ~bounds["variant"]]
    bounds = bounds.assign(heading=_headings(bounds)).dropna(subset="heading")
    for kind, heading in _sorted(set(zip(bounds["kind"], bounds["heading"], strict=True))):
        field = f"{kind}{_OF}{heading}"
        chosen = bounds[(bounds["kind"] == kind) & (bounds["heading"] == heading)]
        tightest = over_seeds(least(chosen, [*SUBJECT, "seed"], field), SUBJECT, [field])
        frame = frame.merge(tightest.drop(columns="seeds"), on=SUBJECT, how="left")
    return arrange(frame, SUBJECT)


def columns(frame: "pd.DataFrame") -> Sequence[Column]:
    """Those that every row has, and one for each way to count that `frame` holds."""
    found = []
    for column in map(str, frame.columns):
        kind, of, heading = column.removesuffix("_mean").partition(_OF)
        if of and column.endswith("_mean"):
            found.append(Column(column, heading, "epsilon", group=_GROUPS[Kind(kind)]))
    return (*SUBJECT_COLUMNS, *found, Column("seeds", "Seeds", "count"))


def _headings(bounds: "pd.DataFrame") -> "pd.Series[str]":
    """How the table heads each bound: by its label, or else by its accountant's name; None where it has no column.

    Where an accountant converts in both ways, the tight one has the label. The classic one has a column of its own if
    it depends on the votes and is no exact computation: papers state that.
    """
    import pandas as pd

    labels = bounds["label"].where(bounds["label"] != "", bounds["accountant"])
    tight = bounds["conversion"] == Conversion.TIGHT
    in_both_ways = zip(bounds.loc[tight, "kind"], bounds.loc[tight, "accountant"], strict=True)
    pairs = pd.Series(list(zip(bounds["kind"], bounds["accountant"], strict=True)), bounds.index, dtype=object)
    classic = pairs.isin(set(in_both_ways)) & (bounds["conversion"] == Conversion.CLASSIC)
    stated = classic & (bounds["kind"] == Kind.DATA_DEPENDENT) & ~bounds["exact"]
    named: pd.Series[str] = labels.where(~stated, labels + _CLASSIC).where(~classic | stated)
    return named


def _sorted(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of kind and heading, in the order of the columns."""
    kinds, known = list(_GROUPS), {heading: place for place, heading in enumerate(_ORDER)}
    return sorted(
        pairs, key=lambda pair: (kinds.index(Kind(pair[0])), known.get(pair[1], len(known)), natural(pair[1]))
    )


TABLE = Table(title="Every mechanism under every accountant", columns=columns, build=build)
