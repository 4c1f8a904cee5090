"""Accuracy of the released labels at every noise setting: the numbers of Figure 2 of PATE 2017."""

from typing import TYPE_CHECKING

from patebench.reporting.frames import Records, arrange, spread
from patebench.reporting.outcomes import RELEASE
from patebench.reporting.published import PATE_2017, Published
from patebench.reporting.tables.table import Column, Table

if TYPE_CHECKING:
    import pandas as pd


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per release setting."""
    values = ["answered", "expected_label_accuracy", "label_accuracy"]
    frame = arrange(spread(records.releases, [*RELEASE, "queries"], values), [*RELEASE, "queries"])
    keys = ["dataset", "teachers", "mechanism", "noise"]
    paper = published.of(PATE_2017)
    found = [paper.lookup("label_accuracy", **dict(zip(keys, row, strict=True))) for row in frame[keys].to_numpy()]
    frame["published_label_accuracy"] = [float("nan") if value is None else value for value in found]
    return frame


TABLE = Table(
    title="Accuracy of the released labels",
    columns=(
        Column("dataset", "Data set"),
        Column("teachers", "n", "count"),
        Column("partition", "Partition"),
        Column("model", "Teacher"),
        Column("recipe", "Recipe"),
        Column("mechanism", "Mechanism"),
        Column("noise", "Noise"),
        Column("queries", "Queries", "count"),
        Column("answered_mean", "Answered", "count"),
        Column("expected_label_accuracy", "expected", "percent", spread=True, group="Label accuracy %"),
        Column("label_accuracy", "drawn", "percent", spread=True, group="Label accuracy %"),
        Column("published_label_accuracy", "published", "percent", group="Label accuracy %", optional=True),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
