"""What students reach at what ε, beside the published values: the table in Figure 4 of PATE 2017."""

from typing import TYPE_CHECKING

from patebench.reporting.frames import Records, means_and_deviations
from patebench.reporting.outcomes import STUDENT, outcomes
from patebench.reporting.published import PATE_2017, SCALABLE_2018, Published
from patebench.reporting.tables.table import (
    ACCURACY_COLUMNS,
    EPSILON_COLUMNS,
    NOISE_COLUMNS,
    SIZE_COLUMNS,
    Column,
    Table,
)

if TYPE_CHECKING:
    import pandas as pd

_COSTS = ("answered", "data_dependent_epsilon", "worst_case_epsilon")
_ACCURACIES = ("label_accuracy", "accuracy", "baseline_accuracy")
_MEASURED = means_and_deviations([*_COSTS, *_ACCURACIES])
_PUBLISHED = ("epsilon", "student_accuracy", "baseline_accuracy")
_KEYS = ("dataset", "teachers", "mechanism", "noise", "queries", "delta")


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per student setting and δ; the tightest worst-case ε, and the paper's own data-dependent one."""
    accountants = ["data_dependent_accountant", "worst_case_accountant"]
    frame = outcomes(records)[[*STUDENT, "delta", "seeds", *accountants, "may_publish", *_MEASURED]]
    papers = published.of(PATE_2017, SCALABLE_2018)
    printed = {f"published_{quantity}": papers.beside(frame, quantity, _KEYS) for quantity in _PUBLISHED}
    return frame.assign(**printed)


TABLE = Table(
    title="Utility and privacy of the students",
    columns=(
        *SIZE_COLUMNS,
        *NOISE_COLUMNS,
        Column("method", "Student"),
        Column("queries", "Queries", "count"),
        *ACCURACY_COLUMNS,
        Column("published_student_accuracy", "student, published", "percent", group="Accuracy %"),
        *EPSILON_COLUMNS,
        Column("may_publish", "this draw publishable", group="ε"),
        Column("published_epsilon", "published", "epsilon", group="ε"),
        Column("delta", "δ", "number"),
        Column("answered_mean", "Answered", "count"),
        Column("rounds_in_words", "Selected in rounds"),
        Column("model", "Teacher"),
        Column("recipe", "Recipe"),
        Column("student_model", "Student’s model"),
        Column("baseline_accuracy", "Non-private accuracy %", "percent", deviation=True),
        Column("published_baseline_accuracy", "Non-private, published", "percent"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
