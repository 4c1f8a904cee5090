"""What students reach at what ε, beside the published values: the table in Figure 4 of PATE 2017."""

from typing import TYPE_CHECKING, Any

from patebench.reporting.frames import Records
from patebench.reporting.outcomes import ANY_STUDENT, asked, outcomes
from patebench.reporting.published import PATE_2017, SCALABLE_2018, Published
from patebench.reporting.tables.table import RELEASE_COLUMNS, Column, Table

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
    frame = frame[[*ANY_STUDENT, "delta", "seeds", *accountants, *_MEASURED]]
    words: list[Any] = [in_words(rounds) or None for rounds in frame["rounds"]]
    return frame.assign(
        asked=words, **{name: [float("nan") if value is None else value for value in beside[name]] for name in beside}
    )


def _published(published: Published, quantity: str, row: dict[Any, Any]) -> float | None:
    keys = ("dataset", "teachers", "mechanism", "noise", "queries", "delta")
    return published.of(PATE_2017, SCALABLE_2018).lookup(quantity, **{key: row[key] for key in keys})


def in_words(rounds: str) -> str:
    """…/round-0_random-100/round-1_siamese-50 as "random 100 + siamese 50"."""
    return " + ".join(f"{strategy} {queries}" for strategy, queries in asked(rounds))


TABLE = Table(
    title="Utility and privacy of the students",
    columns=(
        *RELEASE_COLUMNS,
        Column("method", "Student"),
        Column("student_model", "Its model"),
        Column("asked", "Asked in rounds", optional=True),
        Column("queries", "Queries", "count"),
        Column("answered_mean", "Answered", "count"),
        Column("delta", "δ", "number"),
        Column("data_dependent_epsilon", "data-dependent, not publishable", "epsilon", spread=True, group="ε"),
        Column("worst_case_epsilon_mean", "worst case, publishable", "epsilon", group="ε"),
        Column("published_epsilon", "published", "epsilon", group="ε", optional=True),
        Column("label_accuracy", "labels", "percent", spread=True, group="Accuracy %"),
        Column("accuracy", "student", "percent", spread=True, group="Accuracy %"),
        Column("published_student_accuracy", "student, published", "percent", group="Accuracy %", optional=True),
        Column("baseline_accuracy", "Non-private accuracy %", "percent", spread=True),
        Column("published_baseline_accuracy", "Non-private, published", "percent", optional=True),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
