"""What students reach at what ε, beside the published values: the table in Figure 4 of PATE 2017."""

import math
from typing import TYPE_CHECKING, Any

from patebench.reporting.frames import Records
from patebench.reporting.outcomes import STUDENT, outcomes
from patebench.reporting.published import PATE_2017, SCALABLE_2018, Published
from patebench.reporting.tables.table import LABEL_SET_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd

_MEASURED = [
    f"{name}_{what}"
    for name in (
        *("answered", "data_dependent_epsilon", "worst_case_epsilon"),
        *("label_accuracy", "accuracy", "baseline_accuracy"),
    )
    for what in ("mean", "std")
]
_PUBLISHED = ("epsilon", "student_accuracy", "baseline_accuracy")


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per student setting and δ; the tightest publishable ε, and the paper's own data-dependent one."""
    frame = outcomes(records)
    rows = frame.to_dict("records")
    beside = {
        f"published_{quantity}": [_published(published, quantity, row) for row in rows] for quantity in _PUBLISHED
    }
    accountants = ["data_dependent_accountant", "worst_case_accountant"]
    frame = frame[[*STUDENT, "delta", "seeds", *accountants, *_MEASURED]]
    return frame.assign(**{name: [math.nan if value is None else value for value in beside[name]] for name in beside})


def _published(published: Published, quantity: str, row: dict[Any, Any]) -> float | None:
    keys = ("dataset", "teachers", "mechanism", "noise", "queries", "delta")
    return published.of(PATE_2017, SCALABLE_2018).lookup(quantity, **{key: row[key] for key in keys})


TABLE = Table(
    title="Utility and privacy of the students",
    columns=(
        *LABEL_SET_COLUMNS,
        Column("method", "Student"),
        Column("student_model", "Its model"),
        Column("rounds_in_words", "Selected in rounds", optional=True),
        Column("queries", "Queries", "count"),
        Column("answered_mean", "Answered", "count"),
        Column("delta", "δ", "number"),
        Column("data_dependent_epsilon", "data-dependent, not publishable", "epsilon", deviation=True, group="ε"),
        Column("worst_case_epsilon_mean", "worst case, publishable", "epsilon", group="ε"),
        Column("published_epsilon", "published", "epsilon", group="ε", optional=True),
        Column("label_accuracy", "labels", "percent", deviation=True, group="Accuracy %"),
        Column("accuracy", "student", "percent", deviation=True, group="Accuracy %"),
        Column("published_student_accuracy", "student, published", "percent", group="Accuracy %", optional=True),
        Column("baseline_accuracy", "Non-private accuracy %", "percent", deviation=True),
        Column("published_baseline_accuracy", "Non-private, published", "percent", optional=True),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
