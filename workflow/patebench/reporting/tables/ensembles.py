"""How good the ensembles are: teachers, plurality, gap, and the noisy labels of which PATE 2017 prints the accuracy."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from patebench.core.spelling import parameters_slug
from patebench.reporting.frames import Records, arrange, over_seeds
from patebench.reporting.outcomes import ENSEMBLE
from patebench.reporting.published import PATE_2017, Published
from patebench.reporting.tables.table import SIZE_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd

_VALUES = ["teacher_accuracy_mean", "plurality_accuracy_pool", "plurality_accuracy_test", "gap_mean"]

#: The one noise setting for which PATE 2017 prints the accuracy of noisy labels (Section 4.1).
LNMAX = {"mechanism": "lnmax", "noise": parameters_slug({"gamma": 0.05})}

#: Which ensemble a row is about, and how good its teachers are.
TEACHER_COLUMNS = (
    *SIZE_COLUMNS,
    Column("partition", "Partition"),
    Column("model", "Model"),
    Column("recipe", "Recipe"),
    Column("epochs", "Epochs", "count"),
    Column("teacher_accuracy", "mean", "percent", deviation=True, group="Teacher accuracy %"),
    Column("published_teacher_accuracy", "published", "percent", group="Teacher accuracy %"),
)


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per ensemble setting."""
    ensembles = records.ensembles
    frame = of_ensembles(ensembles, _VALUES)
    extremes = ensembles.groupby(ENSEMBLE, dropna=False).agg(
        {"teacher_accuracy_min": "min", "teacher_accuracy_max": "max"}
    )
    frame = frame.merge(extremes.reset_index(), on=ENSEMBLE)
    labels = of_labels(records.of_whole_pool().label_sets, LNMAX, "label_accuracy")
    frame = arrange(frame.merge(labels, on=ENSEMBLE, how="left"), ENSEMBLE)
    for quantity, keys in (("teacher_accuracy", {}), ("label_accuracy", LNMAX)):
        printed = published.of(PATE_2017).beside(frame, quantity, ["dataset", "teachers"], **keys)
        frame[f"published_{quantity}"] = printed
    return frame


def of_ensembles(ensembles: "pd.DataFrame", values: Sequence[str]) -> "pd.DataFrame":
    """These values of each ensemble setting; the mean over the seeds of a mean is called by the one word."""
    frame = over_seeds(ensembles, ENSEMBLE, values)
    return frame.rename(columns=lambda column: column.replace("_mean_", "_"))


def of_labels(label_sets: "pd.DataFrame", keys: Mapping[str, str], name: str) -> "pd.DataFrame":
    """The accuracy, under this name, of each ensemble's labels of one mechanism and noise."""
    chosen = label_sets[(label_sets[list(keys)] == list(keys.values())).all(axis=1)]
    return over_seeds(chosen.rename(columns={"label_accuracy": name}), ENSEMBLE, [name]).drop(columns="seeds")


TABLE = Table(
    title="The ensembles of teachers",
    columns=(
        *TEACHER_COLUMNS,
        Column("teacher_accuracy_min", "worst", "percent", group="Teacher accuracy %"),
        Column("teacher_accuracy_max", "best", "percent", group="Teacher accuracy %"),
        Column("plurality_accuracy_pool", "pool", "percent", deviation=True, group="Plurality accuracy %"),
        Column("plurality_accuracy_test", "test", "percent", deviation=True, group="Plurality accuracy %"),
        Column("label_accuracy", "measured", "percent", deviation=True, group="LNMax γ = 0.05 labels %"),
        Column("published_label_accuracy", "published", "percent", group="LNMax γ = 0.05 labels %"),
        Column("gap", "Gap / n %", "percent", deviation=True),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
