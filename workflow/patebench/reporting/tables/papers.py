"""How close each paper came out: how many of the numbers that it prints have which verdict."""

from typing import TYPE_CHECKING

from patebench.reporting.frames import Records
from patebench.reporting.published import Published
from patebench.reporting.tables.table import Column, Table
from patebench.reporting.verdicts import COUNTING, NUMBER, Verdict, verdicts

if TYPE_CHECKING:
    import pandas as pd


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per paper; of several settings that measured one number, that with the best verdict counts.

    A copy of a data set measures no printed number.
    """
    frame = verdicts(records, published)
    frame = frame[frame["copy_of"].isna()]
    ranked = frame.assign(rank=frame["verdict"].map({verdict: rank for rank, verdict in enumerate(COUNTING)}))
    best = ranked.sort_values("rank", kind="stable").drop_duplicates(NUMBER)
    counts = best.groupby("paper", sort=False)["verdict"].value_counts().unstack(fill_value=0)
    counts = counts.reindex(
        index=list(dict.fromkeys(frame["paper"])), columns=[str(each) for each in COUNTING], fill_value=0
    )
    counts = counts.assign(printed=counts.sum(axis=1), short_otherwise=_short_otherwise(frame, best))
    return counts.rename_axis(columns=None).reset_index(names="paper")


def _short_otherwise(frame: "pd.DataFrame", best: "pd.DataFrame") -> "pd.Series[int]":
    """Of each paper, the numbers of a better verdict of which another setting fell short."""
    import pandas as pd

    judged = best[best["verdict"].isin([Verdict.REPRODUCED, Verdict.BETTER])]
    short = frame[frame["verdict"] == Verdict.SHORT].drop_duplicates(NUMBER)
    number = judged[NUMBER].merge(short[NUMBER], on=NUMBER)
    papers = pd.Index(dict.fromkeys(frame["paper"]))
    return number["paper"].value_counts().reindex(papers, fill_value=0).astype(int)


TABLE = Table(
    title="How close each paper came out",
    columns=(
        Column("paper", "Paper"),
        Column("printed", "Numbers printed", "count"),
        *(Column(str(verdict), str(verdict), "count") for verdict in COUNTING),
        Column("short_otherwise", "short by another setting", "count"),
    ),
    build=build,
)
