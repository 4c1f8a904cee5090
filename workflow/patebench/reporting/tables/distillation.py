"""Distillation: plain labels against probabilities, at equal numbers of samples (PATE 2017, Figure 5)."""

from typing import TYPE_CHECKING

from patebench.reporting.frames import Records, arrange, over_seeds
from patebench.reporting.outcomes import DISTILLATION, DISTILLED
from patebench.reporting.published import Published
from patebench.reporting.tables.table import SIZE_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per kind of label and number of samples; the gain is over the plurality of the same seed."""
    learnt = records.distillations
    plain = learnt[learnt["labels"] == "plurality"].rename(columns={"accuracy": "plain"})
    learnt = learnt.merge(plain[[*DISTILLATION, "seed", "plain"]], on=[*DISTILLATION, "seed"], how="left")
    learnt = learnt.assign(gain=learnt["accuracy"] - learnt["plain"])
    return arrange(over_seeds(learnt, DISTILLED, ["accuracy", "gain"]), DISTILLED)


TABLE = Table(
    title="Distillation: plain labels against probabilities, not private",
    columns=(
        *SIZE_COLUMNS,
        Column("model", "Teacher"),
        Column("epochs", "Epochs", "count"),
        Column("distilled", "Student model"),
        Column("samples", "Samples", "count"),
        Column("labels", "Labels"),
        Column("temperature", "T", "number"),
        Column("epsilon", "ε (no noise: not private)", "epsilon"),
        Column("accuracy", "student", "percent", deviation=True, group="Accuracy %"),
        Column("gain", "gain over plurality", "percent", deviation=True, group="Accuracy %"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
