"""Students of PET-DL as rows: what was chosen for each, what it reached, and what its teachers did."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from patebench.reporting.frames import Records
from patebench.reporting.published import ALL_SYSTEMS, PETDL, Value

if TYPE_CHECKING:
    import pandas as pd

#: What is chosen for a student, by its name in the parameters, in the order of Figures 3 to 5.
CHOSEN = (
    *("hint_epochs", "distillation_epochs", "batch", "noise", "compression"),
    *("samples", "weighted", "clip", "hint_clip", "temperature", "learning_rate", "guided", "hint_layer", "epsilon"),
)

#: What tells its teachers apart, but for their number and the seed.
TEACHERS = ("partition", "teacher_model", "teacher_recipe", "teacher_epochs")

#: How far the compression of a student may be from a printed one, relatively.
_NEAR = 0.02


def students(records: Records) -> "pd.DataFrame":
    """A row for each student of PET-DL and bound on it.

    Beside the columns of records there are those of `CHOSEN`, the target ε being `target`, those of `TEACHERS`, and
    `teacher_accuracy`, the mean of its teachers.
    """
    found = records.private_models
    found = found[found["system"] == ALL_SYSTEMS[PETDL]].reset_index(drop=True)
    for name in CHOSEN:
        found["target" if name == "epsilon" else name] = [each.get(name) for each in found["parameters"]]
    found["compression"] = found["compression"].fillna(1.0).astype(float)
    found["weighted"] = found["weighted"].astype(bool)
    teachers = records.ensembles.rename(
        columns={
            **{name: f"teacher_{name}" for name in ("model", "recipe", "epochs")},
            "teacher_accuracy_mean": "teacher_accuracy",
        }
    )
    keys = ["dataset", "split", "ensemble"]
    return found.merge(teachers[[*keys, *TEACHERS, "teacher_accuracy"]], on=keys, how="left")


def alike(value: Value, row: Mapping[Any, Any]) -> bool:
    """Whether a value is printed of such a student: of that data set, number of teachers, weighting and size."""
    chosen = value.parameters or {}
    if row["form"] != "published" or (value.dataset, value.teachers) != (row["dataset"], row["teachers"]):
        return False
    near = abs(chosen.get("compression", math.inf) / float(row["compression"]) - 1) < _NEAR
    return bool(near and bool(chosen.get("weighted")) == row["weighted"])
