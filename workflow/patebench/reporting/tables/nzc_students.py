"""Students of the immutable noisy argmax beside those of LNMax and of clean votes: Table 1 of NZC (Sun et al. 2020)."""

import math
from typing import TYPE_CHECKING

from patebench.core.bound import Kind
from patebench.mechanisms import MECHANISMS
from patebench.reporting.frames import Records, arrange, over_seeds
from patebench.reporting.outcomes import LABEL_SET, STUDENT, SUBJECT, best_learners, compared_bounds, stated_by_paper
from patebench.reporting.published import NZC_2020, Published
from patebench.reporting.sections import IMMUTABLE
from patebench.reporting.tables.table import ACCURACY_COLUMNS, NOISE_COLUMNS, SIZE_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd

#: What the paper compares with; its "clean votes" are gnmax at σ = 0.
_COMPARED = ("lnmax", "gnmax")


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per student setting and δ; ε as the mechanism's paper computes it, and as it is."""
    records = records.of_whole_pool()
    frame = over_seeds(_students(records), STUDENT, ["answered", "label_accuracy", "accuracy"])
    frame = frame.merge(_epsilons(records), on=[*LABEL_SET, "queries"], how="left")
    frame = frame.merge(_of_true_labels(records), on=["dataset", "setting", "queries"], how="left")
    frame = arrange(frame, ["dataset", "setting", "teachers", "mechanism", *STUDENT, "delta"])
    paper, keys = published.of(NZC_2020), ["dataset", "teachers", "mechanism", "noise", "queries"]
    epsilons, above = (paper.beside(frame, quantity, keys) for quantity in ("epsilon", "epsilon_above"))
    of_true_labels = paper.beside(frame, "ground_truth_student_accuracy", ["dataset", "queries"])
    return frame.assign(
        published_epsilon=[_as_printed(*pair) for pair in zip(epsilons, above, strict=True)],
        published_student_accuracy=paper.beside(frame, "student_accuracy", keys),
        published_true_label_accuracy=of_true_labels,
    )


def _students(records: Records) -> "pd.DataFrame":
    """Those to compare, on the data sets where an immutable mechanism has students."""
    students = records.students
    here = students["dataset"].isin(students.loc[students["mechanism"].isin(IMMUTABLE), "dataset"])
    return students[here & students["mechanism"].map(_compared)]


def _compared(mechanism: str) -> bool:
    """Whether the paper compares it, or it has the same aim and is sound, as its class says itself."""
    known = mechanism in (*IMMUTABLE, *_COMPARED)
    return known or (mechanism in MECHANISMS and bool(MECHANISMS.load(mechanism).tests_stability))


def _of_true_labels(records: Records) -> "pd.DataFrame":
    """The most accurate learner of so many true labels of the pool, for each data set and split."""
    baselines = records.baselines[records.baselines["true_labels"].notna()].astype({"true_labels": int})
    baselines = baselines.rename(columns={"true_labels": "queries"})
    return best_learners(baselines, ["dataset", "setting", "queries"], "true_label_accuracy")


def _epsilons(records: Records) -> "pd.DataFrame":
    """Per label set, T and δ: `stated` by the accountant of the mechanism's paper, `worst_case`, and `exact`.

    Where that accountant has a bound for these votes beside that for all, the paper states the former.
    """
    bounds = compared_bounds(records).rename(
        columns={"least_sound": "worst_case_epsilon", "least_exact": "exact_epsilon"}
    )
    stated = bounds[stated_by_paper(bounds)]
    stated = stated.assign(last=stated["kind"] == Kind.WORST_CASE).sort_values("last")
    stated = stated.drop_duplicates([*SUBJECT, "seed"])[[*SUBJECT, "seed", "epsilon", "kind"]]
    stated = stated.rename(columns={"epsilon": "stated_epsilon", "kind": "stated_kind"})
    frame = bounds.drop_duplicates([*SUBJECT, "seed"]).merge(stated, on=[*SUBJECT, "seed"], how="left")
    values = ["stated_epsilon", "worst_case_epsilon", "exact_epsilon"]
    return over_seeds(frame, [*SUBJECT, "stated_kind"], values).drop(columns="seeds")


def _as_printed(epsilon: float, above: float) -> str | float:
    """What the paper prints of an ε that is not always a number; NaN where it prints nothing."""
    if not math.isnan(above):
        return f"> {above:g}"
    if math.isnan(epsilon):
        return epsilon
    return f"{epsilon:g}" if epsilon > 0 else "≈ 0"


TABLE = Table(
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
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
