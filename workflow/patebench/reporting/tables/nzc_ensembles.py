"""Teachers and labels of the immutable noisy argmax: Tables 2 and 3 of NZC (Sun et al. 2020)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from patebench.core.slugs import parameters_slug
from patebench.reporting.distance import DISTANCE, share
from patebench.reporting.frames import Records, arrange, over_seeds
from patebench.reporting.outcomes import ENSEMBLE
from patebench.reporting.published import NZC_2020, Published
from patebench.reporting.tables.nzc_students import IMMUTABLE
from patebench.reporting.tables.table import Column, Table

if TYPE_CHECKING:
    import pandas as pd


def _labels_of(mechanism: str, **parameters: float) -> dict[str, str]:
    return {"mechanism": mechanism, "noise": parameters_slug(parameters)}


#: The labels that the paper rates, and those of its distance-3 form.
_LABELS = {
    "lnmax": _labels_of("lnmax", gamma=0.05),
    "immutable": _labels_of("immutable-lnmax", c=1e100, gamma=1e-10, distance=0),
    "gated": _labels_of("immutable-lnmax", c=1e100, gamma=1e-10, distance=3),
}


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per setting of an ensemble whose whole pool the immutable noisy argmax labelled."""
    label_sets = records.of_whole_pool().label_sets
    used = set(label_sets.loc[label_sets["mechanism"].isin(IMMUTABLE), "ensemble"])
    ensembles = records.ensembles[records.ensembles["ensemble"].isin(used)]
    ensembles = ensembles.assign(far=[share(gaps, DISTANCE) for gaps in ensembles["gap_histogram"]])
    frame = over_seeds(ensembles, ENSEMBLE, ["teacher_accuracy_mean", "plurality_accuracy_pool", "far"])
    frame.columns = frame.columns.str.replace("_mean_", "_", regex=False)
    for name, keys in _LABELS.items():
        frame = frame.merge(_labels(label_sets, keys, f"{name}_accuracy"), on=ENSEMBLE, how="left")
    frame = arrange(frame, ENSEMBLE)
    for column, quantity, keys in (
        ("teacher_accuracy", "teacher_accuracy", {}),
        ("plurality_accuracy", "plurality_accuracy", {}),
        ("lnmax_accuracy", "label_accuracy", _LABELS["lnmax"]),
        ("immutable_accuracy", "label_accuracy", _LABELS["immutable"]),
    ):
        frame[f"published_{column}"] = _printed(published.of(NZC_2020), frame, quantity, keys)
    return frame


def _labels(label_sets: "pd.DataFrame", keys: Mapping[str, str], name: str) -> "pd.DataFrame":
    chosen = label_sets[(label_sets[list(keys)] == list(keys.values())).all(axis=1)]
    return over_seeds(chosen.rename(columns={"label_accuracy": name}), ENSEMBLE, [name]).drop(columns="seeds")


def _printed(paper: Published, frame: "pd.DataFrame", quantity: str, keys: Mapping[str, Any]) -> list[float]:
    pairs = zip(frame["dataset"], frame["teachers"], strict=True)
    found = [paper.lookup(quantity, dataset=dataset, teachers=n, **keys) for dataset, n in pairs]
    return [float("nan") if value is None else value for value in found]


_TEACHERS, _LNMAX, _NZC, _CLEAN = "Teacher accuracy %", "LNMax γ = 0.05 labels %", "NZC labels %", "Clean labels %"

TABLE = Table(
    title="NZC: the teachers and their labels",
    columns=(
        Column("dataset", "Data set"),
        Column("teachers", "n", "count"),
        Column("partition", "Partition"),
        Column("model", "Model"),
        Column("recipe", "Recipe"),
        Column("epochs", "Epochs", "count"),
        Column("teacher_accuracy", "mean", "percent", deviation=True, group=_TEACHERS),
        Column("published_teacher_accuracy", "published", "percent", group=_TEACHERS, optional=True),
        Column("lnmax_accuracy", "right", "percent", deviation=True, group=_LNMAX),
        Column("published_lnmax_accuracy", "published", "percent", group=_LNMAX, optional=True),
        Column("immutable_accuracy", "right", "percent", deviation=True, group=_NZC),
        Column("published_immutable_accuracy", "published", "percent", group=_NZC, optional=True),
        Column("plurality_accuracy_pool", "right", "percent", deviation=True, group=_CLEAN),
        Column("published_plurality_accuracy", "published", "percent", group=_CLEAN, optional=True),
        Column("far", "of the queries", "percent", deviation=True, group="Distance 3 %"),
        Column("gated_accuracy", "right among them", "percent", deviation=True, group="Distance 3 %"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
