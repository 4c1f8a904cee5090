"""Models that are private themselves, so that they are handed out in place of labels: DP-SGD, PET-DL, Private-kNN."""

from typing import TYPE_CHECKING

from patebench.reporting.frames import Records, means_and_deviations
from patebench.reporting.outcomes import PRIVATE_MODEL, private_models
from patebench.reporting.published import Published
from patebench.reporting.tables.table import SIZE_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd

_MEASURED = means_and_deviations(["epsilon", "answered", "label_accuracy", "accuracy", "baseline_accuracy", "seconds"])


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per model and bound on it."""
    return private_models(records)[[*PRIVATE_MODEL, "seeds", *_MEASURED]]


TABLE = Table(
    title="Models that are private themselves",
    columns=(
        *SIZE_COLUMNS,
        Column("system", "System"),
        Column("form", "Form"),
        Column("model", "Model"),
        Column("model_parameters", "Parameters", "count"),
        Column("adjacency", "Protects"),
        Column("queries", "Noisy steps", "count"),
        Column("delta", "δ", "number"),
        Column("epsilon_mean", "ε, of fresh noise", "epsilon"),
        Column("kind", "Kind of ε"),
        Column("label", "Accountant"),
        Column("answered_mean", "Labels", "count"),
        Column("label_accuracy", "Labels right %", "percent", deviation=True),
        Column("accuracy", "Accuracy %", "percent", deviation=True),
        Column("baseline_accuracy", "Non-private accuracy %", "percent", deviation=True),
        Column("seconds_mean", "Seconds", "number"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
