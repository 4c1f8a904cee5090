"""How good the ensembles are: teachers, plurality, gap, and the noisy labels of which PATE 2017 prints the accuracy."""

from typing import TYPE_CHECKING

from patebench.core.slugs import parameters_slug
from patebench.reporting.frames import Records, arrange, over_seeds
from patebench.reporting.outcomes import ENSEMBLE
from patebench.reporting.published import PATE_2017, Published
from patebench.reporting.tables.table import Column, Table

if TYPE_CHECKING:
    import pandas as pd

_VALUES = ["teacher_accuracy_mean", "plurality_accuracy_pool", "plurality_accuracy_test", "gap_mean"]

#: The one noise setting for which PATE 2017 prints the accuracy of noisy labels (Section 4.1).
_PRINTED = {"mechanism": "lnmax", "noise": parameters_slug({"gamma": 0.05})}


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per ensemble setting."""
    ensembles = records.ensembles
    frame = over_seeds(ensembles, ENSEMBLE, _VALUES)
    # The mean over the seeds of a mean over teachers or queries is called by the one word.
    frame.columns = frame.columns.str.replace("_mean_", "_", regex=False)
    extremes = ensembles.groupby(ENSEMBLE, dropna=False).agg(
        {"teacher_accuracy_min": "min", "teacher_accuracy_max": "max"}
    )
    frame = frame.merge(extremes.reset_index(), on=ENSEMBLE)
    label_sets = records.of_whole_pool().label_sets
    printed = label_sets[(label_sets[list(_PRINTED)] == list(_PRINTED.values())).all(axis=1)]
    labels = over_seeds(printed, ENSEMBLE, ["label_accuracy"]).drop(columns="seeds")
    frame = arrange(frame.merge(labels, on=ENSEMBLE, how="left"), ENSEMBLE)
    for quantity, keys in (("teacher_accuracy", {}), ("label_accuracy", _PRINTED)):
        pairs = zip(frame["dataset"], frame["teachers"], strict=True)
        found = [published.of(PATE_2017).lookup(quantity, dataset=dataset, teachers=n, **keys) for dataset, n in pairs]
        frame[f"published_{quantity}"] = [float("nan") if value is None else value for value in found]
    return frame


TABLE = Table(
    title="The ensembles of teachers",
    columns=(
        Column("dataset", "Data set"),
        Column("teachers", "n", "count"),
        Column("partition", "Partition"),
        Column("model", "Model"),
        Column("recipe", "Recipe"),
        Column("epochs", "Epochs", "count"),
        Column("teacher_accuracy", "mean", "percent", deviation=True, group="Teacher accuracy %"),
        Column("published_teacher_accuracy", "published", "percent", group="Teacher accuracy %", optional=True),
        Column("teacher_accuracy_min", "worst", "percent", group="Teacher accuracy %"),
        Column("teacher_accuracy_max", "best", "percent", group="Teacher accuracy %"),
        Column("plurality_accuracy_pool", "pool", "percent", deviation=True, group="Plurality accuracy %"),
        Column("plurality_accuracy_test", "test", "percent", deviation=True, group="Plurality accuracy %"),
        Column("label_accuracy", "measured", "percent", deviation=True, group="LNMax γ = 0.05 labels %", optional=True),
        Column("published_label_accuracy", "published", "percent", group="LNMax γ = 0.05 labels %", optional=True),
        Column("gap", "Gap / n %", "percent", deviation=True),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
