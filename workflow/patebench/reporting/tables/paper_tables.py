"""Tables of verdicts on printed numbers, and tables in the form of the NZC paper (Sun et al. 2020)."""

import math
from typing import Any

import pandas as pd

from patebench.core.bound import Kind
from patebench.core.class_accuracy import BESIDE_ACCURACY
from patebench.core.spelling import parameters_slug
from patebench.mechanisms import MECHANISMS
from patebench.reporting.frames import Records, over_seeds, sort_rows
from patebench.reporting.outcomes import (
    ENSEMBLE,
    LABEL_SET,
    NZC_DISTANCE,
    STUDENT,
    SUBJECT,
    best_learners,
    compared_bounds,
    gap_share,
    stated_by_paper,
)
from patebench.reporting.published import IMMUTABLE, NZC_2020, Published, is_accuracy
from patebench.reporting.tables.learning_tables import LNMAX, TEACHER_COLUMNS, mean_label_accuracy, of_ensembles
from patebench.reporting.tables.table import (
    ACCURACY_COLUMNS,
    BALANCE_COLUMNS,
    NOISE_COLUMNS,
    SIZE_COLUMNS,
    Column,
    Table,
)
from patebench.reporting.verdicts import NUMBER, Verdict, best_of_each_number, count_by_paper, verdicts


def build_papers(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per paper that counts how many of its printed numbers have each verdict.

    There is one column per verdict, such as "reproduced" or "short" (less accurate, or a larger ε). If the run measured
    a printed number in several settings, the verdict that comes first in `Verdict` counts. A further column,
    `short_otherwise`, counts the numbers that one setting reproduces or exceeds, but another setting falls short of.
    Measurements on a copy of a data set that a user changed are left out.
    """
    frame = verdicts(records, published)
    frame = frame[frame["copy_of"].isna()]
    best = best_of_each_number(frame)
    counts = count_by_paper(best)
    short = frame.loc[frame["verdict"] == Verdict.SHORT, NUMBER].drop_duplicates()
    reached = best[best["verdict"].isin([Verdict.REPRODUCED, Verdict.BETTER])].merge(short, on=NUMBER)
    otherwise = counts["paper"].map(reached["paper"].value_counts()).fillna(0).astype(int)
    return counts.assign(short_otherwise=otherwise)


PAPERS = Table(
    title="How close each paper came out",
    columns=(
        Column("paper", "Paper"),
        Column("printed", "Numbers printed", "count"),
        *(Column(str(verdict), str(verdict), "count") for verdict in Verdict),
        Column("short_otherwise", "short by another setting", "count"),
    ),
    build=build_papers,
)


def build_verdicts(records: Records, published: Published) -> pd.DataFrame:
    """Return the verdicts on printed numbers, sorted by paper; in each paper, measured numbers come first.

    Three text columns are added: `what` (the quantity), `printed` (the number in the paper) and `measured`.
    """
    frame = verdicts(records, published)
    papers = {paper: place for place, paper in enumerate(dict.fromkeys(frame["paper"]))}
    unmeasured = frame["measured_mean"].isna()
    order = frame.assign(
        place=frame["paper"].map(papers), rank=1 * unmeasured + (unmeasured & (frame["verdict"] != Verdict.NOT_RUN))
    )
    frame = frame.loc[order.sort_values(["place", "rank"], kind="stable").index].reset_index(drop=True)
    rows = frame.to_dict("records")
    measured: list[Any] = [_measured(row) for row in rows]
    # A setting of the paper's experiments is named as in the paper, by the heading of its column.
    named = frame["column"].where(frame["quantity"] == "setting", frame["quantity"].str.replace("_", " "))
    printed = [_shown(row["quantity"], row["published"]) for row in rows]
    return frame.assign(what=named, printed=printed, measured=measured)


def _shown(quantity: Any, value: float, digits: int = 4) -> str:
    return f"{100 * value:.2f} %" if is_accuracy(quantity) else f"{value:.{digits}g}"


def _measured(row: dict[Any, Any]) -> str | None:
    mean, deviation = row["measured_mean"], row["measured_std"]
    if mean != mean:
        return None
    shown = _shown(row["quantity"], mean)
    if deviation != deviation:
        return shown
    return f"{shown} ± {_shown(row['quantity'], deviation, digits=2).removesuffix(' %')}"


VERDICTS = Table(
    title="A verdict on every printed number",
    columns=(
        Column("paper", "Paper"),
        Column("table", "Table"),
        Column("row", "Row"),
        Column("what", "What"),
        Column("printed", "Printed"),
        Column("measured", "Measured"),
        *BALANCE_COLUMNS,
        Column("seeds", "Seeds", "count"),
        Column("how", "By our"),
        Column("verdict", "Verdict"),
        Column("worst_case", "worst case", "epsilon", group="ε"),
        Column("exact", "exact, not publishable", "epsilon", group="ε"),
        Column("audited", "audited, at least", "audited", group="ε"),
        Column("why", "Why, or how to run it"),
    ),
    build=build_verdicts,
    folded=True,
)


#: Mechanisms with which NZC 2020 compares its own; its "clean votes" are gnmax at σ = 0.
_COMPARED = ("lnmax", "gnmax")


def build_nzc_students(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per student setting and δ, to compare the students of NZC (Sun et al. 2020) with others.

    A row contains the student's accuracy and three ε of its labels: the ε computed as in the mechanism's paper, the
    smallest worst-case ε, and the smallest data-dependent ε from an exact divergence. Columns `published_…` contain the
    numbers that NZC prints. `true_label_accuracy_…` is the accuracy of the best model trained on as many true labels as
    the student has queries.

    Only data sets on which a student learns from NZC's immutable noisy argmax are included, and only mechanisms that
    the NZC paper evaluates or that test stability, as NZC does.
    """
    records = records.of_whole_pool()
    students, of_nzc = records.students, records.students["mechanism"].isin(IMMUTABLE)
    students = students[students["dataset"].isin(students.loc[of_nzc, "dataset"])]
    students = students[students["mechanism"].map(_is_compared).astype(bool)]
    baselines = records.baselines[records.baselines["true_labels"].notna()].astype({"true_labels": int})
    by = ["dataset", "setting", "queries"]
    ceilings = best_learners(baselines.rename(columns={"true_labels": "queries"}), by, "true_label_accuracy")
    frame = over_seeds(students, STUDENT, ["answered", "label_accuracy", "accuracy", *BESIDE_ACCURACY])
    frame = frame.merge(_epsilons(records), on=[*LABEL_SET, "queries"], how="left")
    frame = frame.merge(ceilings, on=by, how="left")
    frame = sort_rows(frame, ["dataset", "setting", "teachers", "mechanism", *STUDENT, "delta"])
    paper, keys = published.of(NZC_2020), ["dataset", "teachers", "mechanism", "noise", "queries"]
    epsilons, above = (paper.beside(frame, quantity, keys) for quantity in ("epsilon", "epsilon_above"))
    of_true_labels = paper.beside(frame, "ground_truth_student_accuracy", ["dataset", "queries"])
    return frame.assign(
        published_epsilon=list(map(_printed_epsilon, epsilons, above)),
        published_student_accuracy=paper.beside(frame, "student_accuracy", keys),
        published_true_label_accuracy=of_true_labels,
    )


def _is_compared(mechanism: str) -> bool:
    """Return True if the table compares `mechanism` with NZC (Sun et al. 2020).

    This is the case if the NZC paper evaluates the mechanism, or if the mechanism tests stability: it answers a query
    only if a few changed votes cannot change the plurality.
    """
    known = mechanism in (*IMMUTABLE, *_COMPARED)
    return known or (mechanism in MECHANISMS and bool(MECHANISMS.load(mechanism).tests_stability))


def _epsilons(records: Records) -> pd.DataFrame:
    """Return three ε of each label set, number of queries and δ, as mean and standard deviation over the seeds.

    `stated_epsilon` is computed as in the mechanism's paper. `worst_case_epsilon` is the smallest worst-case ε.
    `exact_epsilon` is the smallest data-dependent ε that is computed from the exact divergence.
    """
    bounds = compared_bounds(records)
    stated = bounds[stated_by_paper(bounds)]
    # A worst-case ε is stated only where the paper's accountant has no data-dependent one.
    stated = stated.assign(last=stated["kind"] == Kind.WORST_CASE).sort_values("last")
    stated = stated.drop_duplicates([*SUBJECT, "seed"])[[*SUBJECT, "seed", "epsilon", "kind"]]
    stated = stated.rename(columns={"epsilon": "stated_epsilon", "kind": "stated_kind"})
    frame = bounds.drop_duplicates([*SUBJECT, "seed"]).merge(stated, on=[*SUBJECT, "seed"], how="left")
    values = ["stated_epsilon", "worst_case_epsilon", "exact_epsilon"]
    return over_seeds(frame, [*SUBJECT, "stated_kind"], values).drop(columns="seeds")


def _printed_epsilon(epsilon: float, lower_limit: float) -> str | float:
    """Return the ε that a paper prints as text: `epsilon`, such as "2.04", or a lower limit such as "> 8.03".

    Of `epsilon` and `lower_limit`, the one that the paper does not print is NaN. If both are NaN, the result is NaN.
    """
    if not math.isnan(lower_limit):
        return f"> {lower_limit:g}"
    if math.isnan(epsilon):
        return epsilon
    return f"{epsilon:g}" if epsilon > 0 else "≈ 0"


NZC_STUDENTS = Table(
    title="NZC: the students",
    columns=(
        *SIZE_COLUMNS,
        Column("model", "Teacher"),
        *NOISE_COLUMNS,
        Column("student_model", "Student"),
        Column("queries", "Queries", "count"),
        Column("answered_mean", "Answered", "count"),
        Column("delta", "δ", "number"),
        Column("published_epsilon", "published", group="ε"),
        Column("stated_epsilon", "as its paper computes it", "epsilon", deviation=True, group="ε"),
        Column("stated_kind", "which is", group="ε"),
        Column("worst_case_epsilon_mean", "for all votes", "epsilon", group="ε"),
        Column("exact_epsilon_mean", "for these votes, not publishable", "epsilon", group="ε"),
        *ACCURACY_COLUMNS,
        Column("published_student_accuracy", "student, published", "percent", group="Accuracy %"),
        Column("true_label_accuracy", "of true labels", "percent", deviation=True, group="Accuracy %"),
        Column("published_true_label_accuracy", "of true labels, published", "percent", group="Accuracy %"),
        *BALANCE_COLUMNS,
        Column("seeds", "Seeds", "count"),
    ),
    build=build_nzc_students,
)


def _immutable(distance: float) -> dict[str, str]:
    noise = parameters_slug({"c": 1e100, "gamma": 1e-10, "distance": distance})
    return {"mechanism": "immutable-lnmax", "noise": noise}


#: Mechanism and noise of the label sets whose accuracy is shown. "immutable" answers every query. "gated" is the same
#: mechanism with distance 3: it answers if the two largest vote counts differ by at least 3.
_LABELS = {"lnmax": LNMAX, "immutable": _immutable(0), "gated": _immutable(3)}


def build_nzc_ensembles(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per ensemble setting, with accuracies of teachers and labels: measured, and printed by NZC 2020.

    Ensembles without labels from the immutable noisy argmax of NZC (Sun et al. 2020) are left out.
    """
    label_sets = records.of_whole_pool().label_sets
    used = set(label_sets.loc[label_sets["mechanism"].isin(IMMUTABLE), "ensemble"])
    ensembles = records.ensembles[records.ensembles["ensemble"].isin(used)]
    ensembles = ensembles.assign(far=[gap_share(gaps, NZC_DISTANCE) for gaps in ensembles["gap_histogram"]])
    frame = of_ensembles(
        ensembles, ["teacher_accuracy_mean", "plurality_accuracy_pool", "plurality_largest_class_pool", "far"]
    )
    for name, keys in _LABELS.items():
        frame = frame.merge(mean_label_accuracy(label_sets, keys, f"{name}_accuracy"), on=ENSEMBLE, how="left")
    frame = sort_rows(frame, ENSEMBLE)
    paper, same = published.of(NZC_2020), ["dataset", "teachers"]
    return frame.assign(
        published_teacher_accuracy=paper.beside(frame, "teacher_accuracy", same),
        published_plurality_accuracy=paper.beside(frame, "plurality_accuracy", same),
        published_lnmax_accuracy=paper.beside(frame, "label_accuracy", same, **_LABELS["lnmax"]),
        published_immutable_accuracy=paper.beside(frame, "label_accuracy", same, **_LABELS["immutable"]),
    )


_LNMAX, _NZC, _CLEAN = "LNMax γ = 0.05 labels %", "NZC labels %", "Clean labels %"

NZC_ENSEMBLES = Table(
    title="NZC: the teachers and their labels",
    columns=(
        *TEACHER_COLUMNS,
        Column("lnmax_accuracy", "right", "percent", deviation=True, group=_LNMAX),
        Column("published_lnmax_accuracy", "published", "percent", group=_LNMAX),
        Column("immutable_accuracy", "right", "percent", deviation=True, group=_NZC),
        Column("published_immutable_accuracy", "published", "percent", group=_NZC),
        Column("plurality_accuracy_pool", "right", "percent", deviation=True, group=_CLEAN),
        Column("published_plurality_accuracy", "published", "percent", group=_CLEAN),
        Column("plurality_largest_class_pool_mean", "Largest class %", "percent"),
        Column("far", "of the queries", "percent", deviation=True, group="Distance 3 %"),
        Column("gated_accuracy", "right among them", "percent", deviation=True, group="Distance 3 %"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build_nzc_ensembles,
)
