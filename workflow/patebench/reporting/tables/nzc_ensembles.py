"""Teachers and labels of the immutable noisy argmax: Tables 2 and 3 of NZC (Sun et al. 2020)."""

from typing import TYPE_CHECKING

from patebench.core.spelling import parameters_slug
from patebench.reporting.frames import Records, arrange
from patebench.reporting.outcomes import ENSEMBLE, NZC_DISTANCE, gap_share
from patebench.reporting.published import NZC_2020, Published
from patebench.reporting.sections import IMMUTABLE
from patebench.reporting.tables.ensembles import LNMAX, TEACHER_COLUMNS, of_ensembles, of_labels
from patebench.reporting.tables.table import Column, Table

if TYPE_CHECKING:
    import pandas as pd


def _immutable(distance: float) -> dict[str, str]:
    noise = parameters_slug({"c": 1e100, "gamma": 1e-10, "distance": distance})
    return {"mechanism": "immutable-lnmax", "noise": noise}


#: The labels that the paper rates, and those of its distance-3 form.
_LABELS = {"lnmax": LNMAX, "immutable": _immutable(0), "gated": _immutable(3)}


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per setting of an ensemble whose whole pool the immutable noisy argmax labelled."""
    label_sets = records.of_whole_pool().label_sets
    used = set(label_sets.loc[label_sets["mechanism"].isin(IMMUTABLE), "ensemble"])
    ensembles = records.ensembles[records.ensembles["ensemble"].isin(used)]
    ensembles = ensembles.assign(far=[gap_share(gaps, NZC_DISTANCE) for gaps in ensembles["gap_histogram"]])
    frame = of_ensembles(ensembles, ["teacher_accuracy_mean", "plurality_accuracy_pool", "far"])
    for name, keys in _LABELS.items():
        frame = frame.merge(of_labels(label_sets, keys, f"{name}_accuracy"), on=ENSEMBLE, how="left")
    frame = arrange(frame, ENSEMBLE)
    for column, quantity, keys in (
        ("teacher_accuracy", "teacher_accuracy", {}),
        ("plurality_accuracy", "plurality_accuracy", {}),
        ("lnmax_accuracy", "label_accuracy", _LABELS["lnmax"]),
        ("immutable_accuracy", "label_accuracy", _LABELS["immutable"]),
    ):
        printed = published.of(NZC_2020).beside(frame, quantity, ["dataset", "teachers"], **keys)
        frame[f"published_{column}"] = printed
    return frame


_LNMAX, _NZC, _CLEAN = "LNMax γ = 0.05 labels %", "NZC labels %", "Clean labels %"

TABLE = Table(
    title="NZC: the teachers and their labels",
    columns=(
        *TEACHER_COLUMNS,
        Column("lnmax_accuracy", "right", "percent", deviation=True, group=_LNMAX),
        Column("published_lnmax_accuracy", "published", "percent", group=_LNMAX),
        Column("immutable_accuracy", "right", "percent", deviation=True, group=_NZC),
        Column("published_immutable_accuracy", "published", "percent", group=_NZC),
        Column("plurality_accuracy_pool", "right", "percent", deviation=True, group=_CLEAN),
        Column("published_plurality_accuracy", "published", "percent", group=_CLEAN),
        Column("far", "of the queries", "percent", deviation=True, group="Distance 3 %"),
        Column("gated_accuracy", "right among them", "percent", deviation=True, group="Distance 3 %"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
