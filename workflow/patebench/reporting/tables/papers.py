"""How close each paper came out: how many of the numbers that it prints have which verdict."""

from typing import TYPE_CHECKING

from patebench.reporting.frames import Records
from patebench.reporting.published import Published
from patebench.reporting.tables.table import Column, Table
from patebench.reporting.verdicts import COUNTING, verdicts

if TYPE_CHECKING:
    import pandas as pd

_NUMBER = ["paper", "table", "row", "column"]


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per paper; of several settings that measured one number, that with the best verdict counts.

    A copy of a data set measures no printed number.
    """
    frame = verdicts(records, published)
    frame = frame[frame["copy_of"].isna()]
    ranked = frame.assign(rank=frame["verdict"].map({verdict: rank for rank, verdict in enumerate(COUNTING)}))
    best = ranked.sort_values("rank", kind="stable").drop_duplicates(_NUMBER)
    counts = best.groupby("paper", sort=False)["verdict"].value_counts().unstack(fill_value=0)
    counts = counts.reindex(
        index=list(dict.fromkeys(frame["paper"])), columns=[str(each) for each in COUNTING], fill_value=0
    )
    return counts.assign(printed=counts.sum(axis=1)).rename_axis(columns=None).reset_index(names="paper")


TABLE = Table(
    title="How close each paper came out",
    columns=(
        Column("paper", "Paper"),
        Column("printed", "Numbers printed", "count"),
        *(Column(str(verdict), str(verdict), "count") for verdict in COUNTING),
    ),
    build=build,
)
