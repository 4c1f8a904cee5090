"""The students that no other beats: the most accurate for each worst-case ε, over mechanism, noise, T and method."""

from typing import TYPE_CHECKING

from patebench.reporting.frames import Records, means_and_deviations
from patebench.reporting.outcomes import STUDENT, frontier, outcomes
from patebench.reporting.published import Published
from patebench.reporting.tables.table import ACCURACY_COLUMNS, NOISE_COLUMNS, SIZE_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd

_MEASURED = means_and_deviations(
    ["answered", "worst_case_epsilon", "data_dependent_epsilon", "label_accuracy", "accuracy"]
)


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per student on the frontier, by data set and rising ε."""
    frame = outcomes(records)
    best = frame[frontier(frame)].sort_values(["dataset", "setting", "worst_case_epsilon_mean"], kind="stable")
    return best[[*STUDENT, "delta", "seeds", *_MEASURED]].reset_index(drop=True)


TABLE = Table(
    title="The frontier: the most accurate student for each worst-case ε",
    columns=(
        *SIZE_COLUMNS,
        Column("worst_case_epsilon_mean", "worst case, of fresh noise", "epsilon", group="ε"),
        Column("data_dependent_epsilon", "data-dependent, not publishable", "epsilon", deviation=True, group="ε"),
        Column("delta", "δ", "number"),
        *NOISE_COLUMNS,
        Column("queries", "Queries", "count"),
        Column("answered_mean", "Answered", "count"),
        Column("method", "Student"),
        *ACCURACY_COLUMNS,
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
