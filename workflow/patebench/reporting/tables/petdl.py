"""Students of PET-DL beside what the paper prints of them: its Tables 1 to 3, and what the audit says of the ε."""

import math
from typing import TYPE_CHECKING

from patebench.reporting.frames import Records, arrange, over_seeds
from patebench.reporting.outcomes import PETDL_TEACHERS, is_printed_of, petdl_students
from patebench.reporting.published import PETDL_2019, Published, Value
from patebench.reporting.tables.table import SIZE_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = ["weighted", "compression", "hint_epochs", "distillation_epochs", "batch", "samples"]
_KEY = [
    *("dataset", "setting", "teachers", *PETDL_TEACHERS, "form", "private_model", *_SHOWN, "noise", "model_parameters"),
    *("queries", "delta", "kind", "audited", "verdict"),
]


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per student and bound; printed values stand beside those of the published form.

    The paper’s students of the same data set, number of teachers, weighting and size. Its teachers are on shards that
    are alike, or on those of Table 2 that each have mostly one class.
    """
    frame = over_seeds(petdl_students(records), _KEY, ["epsilon", "accuracy", "teacher_accuracy", "seconds"])
    frame = arrange(frame, [*_KEY, "epsilon_mean"])
    paper = published.of(PETDL_2019)
    rows = frame.to_dict("records")
    for quantity in ("student_accuracy", "epsilon"):
        frame[f"published_{quantity}"] = [_printed(paper.select(quantity), row) for row in rows]
    return frame


def _printed(values: list[Value], row: "dict[object, object]") -> float:
    """The first value that is printed of such a student; NaN where there is none."""
    return next((value.value for value in values if is_printed_of(value, row)), math.nan)


TABLE = Table(
    title="PET-DL: as published and in sound forms",
    columns=(
        *SIZE_COLUMNS,
        Column("partition", "Shards"),
        Column("form", "Form"),
        Column("weighted", "Weighted", "flag"),
        Column("model_parameters", "Parameters", "count"),
        Column("hint_epochs", "hints", "count", group="Epochs"),
        Column("distillation_epochs", "distillation", "count", group="Epochs"),
        Column("batch", "Batch", "count"),
        Column("samples", "Samples", "count"),
        Column("noise", "Noise", "number"),
        Column("delta", "δ", "number"),
        Column("epsilon_mean", "stated, of fresh noise", "epsilon", group="ε"),
        Column("kind", "kind", group="ε"),
        Column("audited", "audited, at least", "audited", group="ε"),
        Column("verdict", "Verdict"),
        Column("published_epsilon", "printed", "epsilon", group="ε"),
        Column("teacher_accuracy", "teachers", "percent", deviation=True, group="Accuracy %"),
        Column("accuracy", "student", "percent", deviation=True, group="Accuracy %"),
        Column("published_student_accuracy", "printed", "percent", group="Accuracy %"),
        Column("seconds_mean", "Seconds", "number"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
