"""Tables of ensembles, of their labels, and of students in active learning, distillation and PET-DL."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from patebench.core.class_accuracy import BESIDE_ACCURACY
from patebench.core.spelling import parameters_slug
from patebench.reporting.frames import Records, over_seeds, sort_rows
from patebench.reporting.outcomes import (
    BESIDE_LABELS,
    DISTILLATION,
    DISTILLED,
    ENSEMBLE,
    LABEL_SET,
    PETDL_TEACHERS,
    is_printed_of,
    outcomes,
    petdl_students,
)
from patebench.reporting.published import PATE_2017, PETDL_2019, Published
from patebench.reporting.tables.table import (
    BALANCE_COLUMNS,
    EPSILON_COLUMNS,
    LABEL_BALANCE_COLUMNS,
    NOISE_COLUMNS,
    SIZE_COLUMNS,
    Column,
    Table,
)

_PLURALITY = [f"plurality_{what}_{on}" for what in ("accuracy", *BESIDE_ACCURACY) for on in ("pool", "test")]
_VALUES = ["teacher_accuracy_mean", *_PLURALITY, "gap_mean"]

#: Noise setting for which PATE 2017 prints the accuracy of noisy labels (Section 4.1).
LNMAX = {"mechanism": "lnmax", "noise": parameters_slug({"gamma": 0.05})}

#: Columns of an ensemble and the accuracy of its teachers.
TEACHER_COLUMNS = (
    *SIZE_COLUMNS,
    Column("partition", "Partition"),
    Column("model", "Model"),
    Column("recipe", "Recipe"),
    Column("epochs", "Epochs", "count"),
    Column("teacher_accuracy", "mean", "percent", deviation=True, group="Teacher accuracy %"),
    Column("published_teacher_accuracy", "published", "percent", group="Teacher accuracy %"),
)


def build_ensembles(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per ensemble setting, with its accuracies and vote gaps over the seeds.

    The accuracies are those of the teachers, of their plurality labels, and of labels released by LNMax at γ = 0.05.
    Columns `published_…` contain the numbers that PATE 2017 prints.
    """
    extremes = {f"teacher_accuracy_{what}": (f"teacher_accuracy_{what}", what) for what in ("min", "max")}
    frame = of_ensembles(records.ensembles, _VALUES, **extremes)
    labels = mean_label_accuracy(records.of_whole_pool().label_sets, LNMAX, "label_accuracy")
    frame = sort_rows(frame.merge(labels, on=ENSEMBLE, how="left"), ENSEMBLE)
    paper, same = published.of(PATE_2017), ["dataset", "teachers"]
    return frame.assign(
        published_teacher_accuracy=paper.beside(frame, "teacher_accuracy", same),
        published_label_accuracy=paper.beside(frame, "label_accuracy", same, **LNMAX),
    )


def of_ensembles(ensembles: pd.DataFrame, values: Sequence[str], **further: tuple[str, str]) -> pd.DataFrame:
    """Return mean and standard deviation over the seeds of the columns `values`, one row per ensemble setting.

    The names of the result's columns end in `_mean` and `_std`: the column `accuracy` gives `accuracy_mean` and
    `accuracy_std`. A column that already ends in `_mean` keeps its name for the mean: `gap_mean` gives `gap_mean` and
    `gap_std`. `further` adds aggregates as in `over_seeds`.
    """
    frame = over_seeds(ensembles, ENSEMBLE, values, **further)
    return frame.rename(columns=lambda column: column.replace("_mean_", "_"))


def mean_label_accuracy(label_sets: pd.DataFrame, keys: Mapping[str, str], name: str) -> pd.DataFrame:
    """Return the accuracy of labels that one mechanism released with one noise setting, one row per ensemble setting.

    `keys` states mechanism and noise as {"mechanism": …, "noise": …}. The columns `<name>_mean` and `<name>_std`
    contain mean and standard deviation over the seeds.
    """
    chosen = label_sets[(label_sets[list(keys)] == list(keys.values())).all(axis=1)]
    return over_seeds(chosen.rename(columns={"label_accuracy": name}), ENSEMBLE, [name]).drop(columns="seeds")


ENSEMBLES = Table(
    title="The ensembles of teachers",
    columns=(
        *TEACHER_COLUMNS,
        Column("teacher_accuracy_min", "worst", "percent", group="Teacher accuracy %"),
        Column("teacher_accuracy_max", "best", "percent", group="Teacher accuracy %"),
        Column("plurality_accuracy_pool", "pool", "percent", deviation=True, group="Plurality accuracy %"),
        Column("plurality_accuracy_test", "test", "percent", deviation=True, group="Plurality accuracy %"),
        Column("plurality_largest_class_pool_mean", "Largest class of the pool %", "percent"),
        Column("plurality_largest_class_test_mean", "Largest class of the test set %", "percent"),
        Column("plurality_balanced_accuracy_pool", "pool", "percent", True, group="Balanced accuracy of plurality %"),
        Column("plurality_balanced_accuracy_test", "test", "percent", True, group="Balanced accuracy of plurality %"),
        Column("plurality_recall_pool_in_words", "pool", group="Recall of plurality %"),
        Column("plurality_recall_test_in_words", "test", group="Recall of plurality %"),
        Column("label_accuracy", "measured", "percent", deviation=True, group="LNMax γ = 0.05 labels %"),
        Column("published_label_accuracy", "published", "percent", group="LNMax γ = 0.05 labels %"),
        Column("gap", "Gap / n %", "percent", deviation=True),
        Column("seeds", "Seeds", "count"),
    ),
    build=build_ensembles,
)


def build_noisy_accuracy(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per setting of released labels, with their accuracy over the seeds.

    Labels of queries selected in rounds are left out.
    """
    values = ["answered", "expected_label_accuracy", "label_accuracy", *BESIDE_LABELS]
    frame = over_seeds(records.of_whole_pool().label_sets, [*LABEL_SET, "queries"], values)
    frame = sort_rows(frame, [*LABEL_SET, "queries"])
    keys = ["dataset", "teachers", "mechanism", "noise"]
    printed = published.of(PATE_2017).beside(frame, "label_accuracy", keys)
    return frame.assign(published_label_accuracy=printed)


NOISY_ACCURACY = Table(
    title="Accuracy of the released labels",
    columns=(
        *SIZE_COLUMNS,
        Column("partition", "Partition"),
        Column("model", "Teacher"),
        Column("recipe", "Recipe"),
        *NOISE_COLUMNS,
        Column("queries", "Queries", "count"),
        Column("answered_mean", "Answered", "count"),
        Column("expected_label_accuracy", "expected", "percent", deviation=True, group="Label accuracy %"),
        Column("label_accuracy", "drawn", "percent", deviation=True, group="Label accuracy %"),
        Column("published_label_accuracy", "published", "percent", group="Label accuracy %"),
        *LABEL_BALANCE_COLUMNS,
        Column("seeds", "Seeds", "count"),
    ),
    build=build_noisy_accuracy,
    folded=True,
)


BASELINE = "random"
_SELECTED = [*LABEL_SET, "student", "method", "student_model", "student_recipe", "queries"]
_EPSILON = ["data_dependent_epsilon_mean", "data_dependent_epsilon_std", "worst_case_epsilon_mean", "delta"]


def build_active_learning(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per student setting, strategy of selecting queries and δ, with the student's accuracy.

    `gain_mean` and `gain_std` are mean and standard deviation over the seeds of the gain in accuracy. The gain is the
    difference to the student with the same seed whose queries are random. Settings with a single strategy are left out.
    """
    rounds = records.students[records.students["rounds"] != ""]
    random = rounds[rounds["strategy"] == BASELINE].rename(columns={"accuracy": "random"})
    same = [*_SELECTED, "seed", "round"]
    compared = rounds.merge(random[[*same, "random"]], on=same, how="left")
    compared = compared.assign(gain=compared["accuracy"] - compared["random"])
    several = compared.groupby([*_SELECTED, "round"], dropna=False)["strategy"].transform("nunique") > 1
    measured = ["answered", "accuracy", "gain", *BESIDE_ACCURACY]
    frame = over_seeds(compared[several], [*_SELECTED, "rounds", "strategy"], measured)
    costs = outcomes(records)[[*_SELECTED, "rounds", *_EPSILON]]
    frame = frame.merge(costs, on=[*_SELECTED, "rounds"], how="left")
    printed: list[Any] = [_published_gain(published, strategy) for strategy in frame["strategy"]]
    frame = frame.assign(published_gain=printed)
    return sort_rows(frame, [*LABEL_SET, "student", "queries", "strategy", "delta"])


def _published_gain(published: Published, strategy: str) -> str | None:
    """Return the printed accuracy gains of `strategy` in percentage points, as text such as "1–2"; None without any."""
    values = sorted(100 * value.value for value in published.select("accuracy_gain", row=strategy))
    return "–".join(f"{value:g}" for value in values) or None


ACTIVE_LEARNING = Table(
    title="Active learning: which samples to query",
    columns=(
        *SIZE_COLUMNS,
        *NOISE_COLUMNS,
        Column("method", "Student"),
        Column("student_model", "Its model"),
        Column("queries", "Queries", "count"),
        Column("strategy", "Strategy"),
        *EPSILON_COLUMNS,
        Column("accuracy", "student", "percent", deviation=True, group="Accuracy %"),
        Column("gain", "gain over random", "percent", deviation=True, group="Accuracy %"),
        Column("published_gain", "gain, published", group="Accuracy %"),
        *BALANCE_COLUMNS,
        Column("seeds", "Seeds", "count"),
    ),
    build=build_active_learning,
)


def build_distillation(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per setting of a distilled student, kind of label and number of samples, with its accuracy.

    `gain_mean` and `gain_std` are mean and standard deviation over the seeds of the gain in accuracy. The gain is the
    difference to the student with the same seed and samples that learns from plurality labels.
    """
    learnt = records.distillations
    plain = learnt[learnt["labels"] == "plurality"].rename(columns={"accuracy": "plain"})
    learnt = learnt.merge(plain[[*DISTILLATION, "seed", "plain"]], on=[*DISTILLATION, "seed"], how="left")
    learnt = learnt.assign(gain=learnt["accuracy"] - learnt["plain"])
    return sort_rows(over_seeds(learnt, DISTILLED, ["accuracy", "gain", *BESIDE_ACCURACY]), DISTILLED)


PLAIN_AND_SOFT = Table(
    title="Distillation: plain labels against probabilities, not private",
    columns=(
        *SIZE_COLUMNS,
        Column("model", "Teacher"),
        Column("epochs", "Epochs", "count"),
        Column("distilled", "Student model"),
        Column("samples", "Samples", "count"),
        Column("labels", "Labels"),
        Column("temperature", "T", "number"),
        Column("epsilon", "ε (no noise: not private)", "epsilon"),
        Column("accuracy", "student", "percent", deviation=True, group="Accuracy %"),
        Column("gain", "gain over plurality", "percent", deviation=True, group="Accuracy %"),
        *BALANCE_COLUMNS,
        Column("seeds", "Seeds", "count"),
    ),
    build=build_distillation,
)


_SHOWN = ["weighted", "compression", "hint_epochs", "distillation_epochs", "batch", "samples"]
_KEY = [
    *("dataset", "setting", "teachers", *PETDL_TEACHERS, "form", "private_model", *_SHOWN, "noise", "model_parameters"),
    *("queries", "delta", "kind", "audited", "verdict"),
]


def build_petdl(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per PET-DL student and bound on its ε, with accuracy and ε over the seeds.

    If the student has the form "published", the row also contains the accuracy and ε that the paper prints for the same
    data set, number of teachers, weighting and compression. The shards of the paper may differ.
    """
    values = ["epsilon", "accuracy", "teacher_accuracy", "seconds", *BESIDE_ACCURACY]
    frame = over_seeds(petdl_students(records), _KEY, values)
    frame = sort_rows(frame, [*_KEY, "epsilon_mean"])
    rows = frame.to_dict("records")
    for quantity in ("student_accuracy", "epsilon"):
        printed = published.of(PETDL_2019).select(quantity)
        of_rows = ((value.value for value in printed if is_printed_of(value, row)) for row in rows)
        frame[f"published_{quantity}"] = [next(values, math.nan) for values in of_rows]
    return frame


PETDL = Table(
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
        *BALANCE_COLUMNS,
        Column("seconds_mean", "Seconds", "number"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build_petdl,
)
