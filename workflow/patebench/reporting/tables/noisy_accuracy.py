"""Accuracy of the released labels at every noise setting: the numbers of Figure 2 of PATE 2017."""

from typing import TYPE_CHECKING

from patebench.reporting.frames import Records, arrange, over_seeds
from patebench.reporting.outcomes import LABEL_SET
from patebench.reporting.published import PATE_2017, Published
from patebench.reporting.tables.table import NOISE_COLUMNS, SIZE_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per setting of the labels of the whole pool."""
    values = ["answered", "expected_label_accuracy", "label_accuracy"]
    frame = over_seeds(records.of_whole_pool().label_sets, [*LABEL_SET, "queries"], values)
    frame = arrange(frame, [*LABEL_SET, "queries"])
    keys = ["dataset", "teachers", "mechanism", "noise"]
    printed = published.of(PATE_2017).beside(frame, "label_accuracy", keys)
    return frame.assign(published_label_accuracy=printed)


TABLE = Table(
    title="Accuracy of the released labels",
    columns=(
        *SIZE_COLUMNS,
        Column("partition", "Partition"),
        Column("model", "Teacher"),
        Column("recipe", "Recipe"),
        *NOISE_COLUMNS,
        Column("queries", "Queries", "count"),
        Column("answered_mean", "Answered", "count"),
        Column("expected_label_accuracy", "expected", "percent", deviation=True, group="Label accuracy %"),
        Column("label_accuracy", "drawn", "percent", deviation=True, group="Label accuracy %"),
        Column("published_label_accuracy", "published", "percent", group="Label accuracy %"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
    folded=True,
)
