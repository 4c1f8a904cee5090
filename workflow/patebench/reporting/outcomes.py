"""Aggregate the records of a run over the seeds, for tables, figures, rows and verdicts.

The frames of this module contain students and private models with their ε, bounds by several accountants, students of
PET-DL, and gaps between vote counts.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from patebench.core.bound import Kind
from patebench.core.class_accuracy import BESIDE_ACCURACY
from patebench.data.partitions import Change, protected_changes
from patebench.mechanisms import MECHANISMS
from patebench.models import MODELS, on_queries
from patebench.reporting.frames import Records, over_seeds, smallest_epsilon, sort_rows, worst_case_bounds
from patebench.reporting.published import ALL_SYSTEMS, PETDL, Value
from patebench.students import STRATEGIES, STUDENTS, learns_from_unlabelled, selects_by_features

#: Columns that identify an ensemble, except for its seed.
ENSEMBLE = [
    *("dataset", "setting", "pool", "beside_pool", "encoder_data", "features_data", "ensemble", "clusters"),
    *("teachers", "partition", "model", "recipe", "epochs"),
]
#: Columns that identify a set of released labels, except for its rounds and the seed.
LABEL_SET = [*ENSEMBLE, "mechanism", "noise", "parameters"]
#: Columns that identify the subject of an ε: the labels of `queries` queries, and δ.
SUBJECT = [*LABEL_SET, "queries", "delta"]
_ROUNDS = ["rounds", "selection", "strategy"]
#: Columns that identify a student, except for its seed. `rounds` names the rounds in which queries were selected (""
#: for the whole pool).
STUDENT = [*LABEL_SET, "student", "method", "student_model", "student_recipe", "queries", *_ROUNDS]
#: Columns that identify a comparison of distilled students, and one of its students.
DISTILLATION = [*ENSEMBLE, "distilled", "student_model", "student_recipe", "student_epochs", "samples"]
DISTILLED = [*DISTILLATION, "labels", "temperature", "epsilon"]
#: Columns that identify a private model and a bound on it.
PRIVATE_MODEL = [
    *("dataset", "setting", "pool", "system", "form", "private_model", "teachers", "model", "model_parameters"),
    *("public_use", "public_samples", "encoder_data", "features_data"),
    *("queries", "delta", "kind", "adjacency", "accountant", "label", "conversion"),
]


#: Columns shown with the accuracy of labels.
BESIDE_LABELS = [f"label_{what}" for what in BESIDE_ACCURACY]
_MEASURED = ["answered", "label_accuracy", "accuracy", *BESIDE_ACCURACY, *BESIDE_LABELS]


def trained(ensembles: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `ensembles` whose teachers are trained models, not single records that vote."""
    return ensembles[ensembles["plurality_accuracy_test"].notna()]


@lru_cache(maxsize=1)
def outcomes(records: Records) -> pd.DataFrame:
    """Return one row per student setting and δ, with ε and accuracy over the seeds.

    Rows are sorted by setting. Missing values are NaN. The frame is cached and must not be changed.

    Returns
    -------
    Frame with `delta`, the columns that identify a student setting (listed in `STUDENT`), and the columns below. A name
    with * stands for the columns `<name>_mean` and `<name>_std`, the mean and standard deviation over the seeds.

    seeds : number of seeds.
    answered* : number of answered queries.
    label_accuracy*, accuracy* : accuracy of the released labels, and of the student on the test set.
    baseline_accuracy* : accuracy of the best model without privacy.
    worst_case_epsilon* : worst-case ε of the labels from which the student learns, by the tightest accountant.
    data_dependent_epsilon* : data-dependent ε of the same labels, by the accountant of the mechanism's paper or, if
        there is none, by the tightest accountant.
    worst_case_accountant, data_dependent_accountant : names of the accountants of these two ε.
    adjacency : what differs between neighbouring data sets, such as the shard of one teacher.
    add_or_remove : smallest worst-case ε if the votes of a teacher are added or removed.
    may_publish : "yes" if the labels and their worst-case ε may be published, otherwise "no".
    uncovered : names of the classes that have no label in one or more seeds.
    private_records : number of private records; the smallest over the seeds.
    votes_beyond_cap : number of votes that a record casts beyond the maximum that the mechanism counts; the largest
        over the seeds, and missing in older records.
    largest_class*, balanced_accuracy*, recall_mean : share of the largest class in the test set, and balanced accuracy
        and recall by class of the student.
    label_largest_class*, label_balanced_accuracy*, label_recall_mean : the same for the released labels.
    """
    further = {"uncovered": ("uncovered", _uncovered), "private_records": ("private_records", "min")}
    further |= {"votes_beyond_cap": ("votes_beyond_cap", "max")}
    students = over_seeds(records.students, STUDENT, _MEASURED, **further)
    key = [*LABEL_SET, "rounds", "queries"]
    settings = [*key, "delta", "accountant", "conversion", "kind", "publishable"]
    bounds = over_seeds(records.bounds, [*settings, "adjacency"], ["epsilon"])
    deltas = bounds[[*key, "delta", "adjacency"]].drop_duplicates()
    frame = students.merge(deltas, on=key, how="left")
    for kind in (Kind.DATA_DEPENDENT, Kind.WORST_CASE):
        frame = frame.merge(_tightest(bounds, kind), on=[*key, "delta"], how="left")
    added = worst_case_bounds(records.bounds).groupby([*key, "delta"], dropna=False)["add_or_remove"].min()
    frame = frame.merge(added.reset_index(), on=[*key, "delta"], how="left")
    frame = frame.assign(may_publish=frame.pop("worst_case_publishable").map({True: "yes", False: "no"}))
    return sort_rows(_beside_baseline(frame, records), [*STUDENT, "delta"])


def _uncovered(names_by_seed: "pd.Series[Any]") -> str:
    """Return all class names in `names_by_seed` as one text such as "“cat”, “dog”", each name once.

    `names_by_seed` contains, per seed, the names of the classes without a released label. So the text lists every class
    that lacks a label for at least one seed.
    """
    return ", ".join(dict.fromkeys(f"“{name}”" for names in names_by_seed for name in names or ()))


def private_models(records: Records) -> pd.DataFrame:
    """Return one row per private model and bound on its ε, with ε and accuracy over the seeds.

    Rows are sorted by setting. Missing values are NaN.

    Returns
    -------
    Frame with the columns that identify a model and a bound (listed in `PRIVATE_MODEL`), and the columns below. A name
    with * stands for the columns `<name>_mean` and `<name>_std`, the mean and standard deviation over the seeds.

    seeds : number of seeds.
    epsilon* : the bound on ε.
    add_or_remove* : ε by the same theorem if a record is added or removed.
    seconds* : run time.
    answered*, label_accuracy* : number and accuracy of released labels, for models that are trained on such labels.
    accuracy* : accuracy on the test set.
    baseline_accuracy* : accuracy of the best model without privacy.
    largest_class*, balanced_accuracy*, recall_mean : share of the largest class in the test set, and balanced accuracy
        and recall by class of the model.
    label_largest_class*, label_balanced_accuracy*, label_recall_mean : the same for the released labels.
    """
    frame = over_seeds(records.private_models, PRIVATE_MODEL, ["epsilon", "add_or_remove", "seconds", *_MEASURED])
    return sort_rows(_beside_baseline(frame, records), PRIVATE_MODEL)


def selected_by_labels(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the data sets in which private labels decide which records are kept (option `long_tail`).

    The option keeps only the first records of each class. One changed label can therefore also change which other
    records are kept, so ε holds only for the data after the selection. `config` is the run's configuration, as in its
    manifest.
    """
    return frozenset(name for name, options in (config.get("datasets") or {}).items() if options.get("long_tail"))


def votes_by_record(model: str) -> bool:
    """Return True if teachers of the kind `model` are not trained: each private record votes by its features."""
    return model in MODELS and on_queries(model)


def protects_replaced_record(model: str, partition: object) -> bool:
    """Return True if the ε of an ensemble's labels protects one replaced record instead of the shard of one teacher.

    This requires that private records vote without training (a property of `model`), and that a replaced record changes
    the shard of one teacher only (a property of `partition`).
    """
    return votes_by_record(model) and Change.REPLACE in protected_changes(partition)


def protects_added_record(model: str, partition: object, single: bool) -> bool:
    """Return True if an ensemble's ε in the column `add_or_remove` protects one added or removed record.

    This is the case under three conditions:

    - `protects_replaced_record` is True for `model` and `partition`;
    - `single` is True: each teacher consists of one record, and the mechanism counts all votes of the record;
    - `partition` never adds a new record to the shard of an existing teacher.
    """
    return protects_replaced_record(model, partition) and single and Change.ADD not in protected_changes(partition)


def public_use(student: Mapping[Any, Any]) -> tuple[str, int]:
    """Return the uses of unlabelled public samples for a student, and the number of samples used.

    An example is ("features, queries", 9000). The text lists up to three uses:

    - "features": features of the pool determine votes, clusters or the selection of queries;
    - "queries": public samples are labelled by the teachers;
    - "student": the student learns from unlabelled samples.

    The number is the number of queries if "queries" is the only use, and otherwise the size of the pool. `student` is a
    row of `Records.students`, or of another frame with the same columns.
    """
    strategy, method = student["strategy"], student["method"]
    features = (
        votes_by_record(student["model"])
        or pd.notna(student["clusters"])
        or (strategy in STRATEGIES and selects_by_features(strategy))
    )
    learns = method not in STUDENTS or learns_from_unlabelled(method)
    uses = [*(["features"] if features else []), "queries", *(["student"] if learns else [])]
    return ", ".join(uses), int(student["pool"] if features or learns else student["queries"])


def data_seen(row: Mapping[Any, Any], uses: object) -> str:
    """Return the public data, other than the pool, on which a method's encoders were trained, as text, or "none".

    The result joins two columns of `row`:

    - `features_data`: training data of the encoder that made the data set, if the data set consists of features;
    - `encoder_data`: training data of the encoder that computes features of the pool. This column counts only if the
      method uses features of the pool. `uses`, a text from `public_use`, then contains "features".
    """
    encoder = row["encoder_data"] if "features" in str(uses) else ""
    return "; ".join(dict.fromkeys(filter(None, (row["features_data"], encoder)))) or "none"


def _beside_baseline(frame: pd.DataFrame, records: Records) -> pd.DataFrame:
    """Return `frame` with the columns `baseline_accuracy_mean` and `baseline_accuracy_std` added.

    They contain the accuracy of the best model without privacy on the same data set and split.
    """
    private = records.baselines[records.baselines["true_labels"].isna()]
    by = ["dataset", "setting"]
    return frame.merge(best_learners(private, by, "baseline_accuracy"), on=by, how="left")


def account_of_paper(mechanism: str) -> tuple[str, str] | None:
    """Return the pair (accountant, conversion) by which the paper of `mechanism` computes ε; None if unknown."""
    return MECHANISMS.load(mechanism).published if mechanism in MECHANISMS else None


def stated_by_paper(bounds: pd.DataFrame) -> "pd.Series[bool]":
    """Return, for each row of `bounds`, True if the bound is computed as in the paper of the mechanism.

    Such a bound has the accountant and conversion that `account_of_paper` returns.
    """
    known = {name: account_of_paper(name) for name in set(bounds["mechanism"])}
    how = bounds[["mechanism", "accountant", "conversion"]].itertuples(index=False, name=None)
    return pd.Series([known[name] == tuple(account) for name, *account in how], index=bounds.index, dtype=bool)


def frontier(students: pd.DataFrame) -> "pd.Series[bool]":
    """Return a boolean per student: True if the student is on the Pareto front of its data set and split.

    A student is on the front if every other student with the same or a smaller worst-case ε is less accurate. Of
    students with equal accuracy and ε, only the first is on the front. Students with an infinite ε are never on it.
    """
    ranked = students.sort_values(["worst_case_epsilon_mean", "accuracy_mean"], ascending=[True, False])
    panels = ranked.groupby(["dataset", "setting"], sort=False)["accuracy_mean"]
    before = panels.transform(lambda accuracies: accuracies.cummax().shift(fill_value=-np.inf))
    on_frontier = (ranked["accuracy_mean"] > before) & (ranked["worst_case_epsilon_mean"] < np.inf)
    return on_frontier.reindex(students.index)


def best_learners(baselines: pd.DataFrame, by: list[str], name: str) -> pd.DataFrame:
    """Return the accuracy of the best learner in `baselines`, for each combination of the columns `by`.

    The best learner has the largest mean accuracy over the seeds. The result contains the columns `by`, and mean and
    standard deviation of this accuracy over the seeds in columns called `<name>_mean` and `<name>_std`.
    """
    learners = over_seeds(baselines, [*by, "learner"], ["accuracy"])
    best = learners.sort_values(["accuracy_mean", "learner"], ascending=[False, True]).drop_duplicates(by)
    named = {f"accuracy_{what}": f"{name}_{what}" for what in ("mean", "std")}
    return best[[*by, *named]].rename(columns=named)


def _tightest(bounds: pd.DataFrame, kind: Kind) -> pd.DataFrame:
    """Return the smallest bound of `kind` for each label set, number of queries and δ.

    If `kind` is data-dependent, bounds computed as in the paper of the mechanism are preferred to smaller bounds.
    """
    chosen = bounds[bounds["kind"] == kind]
    chosen = chosen.assign(other=~stated_by_paper(chosen) if kind is Kind.DATA_DEPENDENT else False)
    ranked = chosen.sort_values(["other", "epsilon_mean", "accountant", "conversion"])
    key = [*LABEL_SET, "rounds", "queries", "delta"]
    named = {"epsilon_mean": f"{kind}_epsilon_mean", "epsilon_std": f"{kind}_epsilon_std"}
    named |= {what: f"{kind}_{what}" for what in ("accountant", "publishable")}
    return ranked.drop_duplicates(key)[[*key, *named]].rename(columns=named)


@lru_cache(maxsize=1)
def compared_bounds(records: Records) -> pd.DataFrame:
    """Return the bounds on the ε of released labels, with two reference values of ε for the same labels, seed and δ.

    Labels of queries selected in rounds are left out. If the run has students, labels from which no student learns are
    left out too. The frame is cached and must not be changed.

    Returns
    -------
    Frame with the columns of `Records.bounds` and two further columns, which are NaN without a bound of their kind:

    worst_case_epsilon : smallest worst-case ε.
    exact_epsilon : smallest data-dependent ε whose accountant computes the divergence for the teachers' votes exactly,
        instead of bounding the divergence.
    """
    by = [*SUBJECT, "seed"]
    records = records.of_whole_pool()
    bounds = records.bounds
    used = records.students[[*LABEL_SET, "seed"]].drop_duplicates()
    bounds = bounds if used.empty else bounds.merge(used, on=[*LABEL_SET, "seed"])
    exact = bounds[bounds["exact"] & (bounds["kind"] == Kind.DATA_DEPENDENT)]
    for name, chosen in (("worst_case_epsilon", worst_case_bounds(bounds)), ("exact_epsilon", exact)):
        bounds = bounds.merge(smallest_epsilon(chosen, by, name), on=by, how="left")
    return bounds


#: Columns that identify one audit.
AUDITED = [
    *("dataset", "teachers", "classes", "delta", "mechanism", "noise", "parameters"),
    *("queries", "runs", "confidence"),
]

#: Names of the settings of a PET-DL student in the column `parameters`, in the order of Figures 3 to 5 of the paper.
PETDL_CHOSEN = (
    *("hint_epochs", "distillation_epochs", "batch", "noise", "compression"),
    *("samples", "weighted", "clip", "hint_clip", "temperature", "learning_rate", "guided", "hint_layer", "epsilon"),
)

#: Columns that identify the teachers of a PET-DL student, except for their number and the seed.
PETDL_TEACHERS = ("partition", "teacher_model", "teacher_recipe", "teacher_epochs")

#: Maximum relative difference between a student's compression and a printed compression that counts as the same.
_NEAR = 0.02


@lru_cache(maxsize=1)
def petdl_students(records: Records) -> pd.DataFrame:
    """Return one row per PET-DL student, seed and bound on ε, with the settings of the student and of its teachers.

    The frame is cached and must not be changed.

    Returns
    -------
    Frame with the columns of `Records.private_models` and the columns below. The column `epsilon` contains the bound.

    target : ε from which the noise of the training was computed; NaN if the noise was given instead.
    `PETDL_CHOSEN` : settings of the student. The setting "epsilon" is left out, because `target` contains it.
    `PETDL_TEACHERS` : settings of the teachers.
    teacher_accuracy : mean accuracy of the teachers.
    """
    models = records.private_models
    models = models[models["system"] == ALL_SYSTEMS[PETDL]].reset_index(drop=True)
    for name in PETDL_CHOSEN:
        models["target" if name == "epsilon" else name] = [settings.get(name) for settings in models["parameters"]]
    models["compression"] = models["compression"].fillna(1.0).astype(float)
    models["weighted"] = models["weighted"].astype(bool)
    renamed = {name: f"teacher_{name}" for name in ("model", "recipe", "epochs")}
    teachers = records.ensembles.rename(columns={**renamed, "teacher_accuracy_mean": "teacher_accuracy"})
    keys = ["dataset", "split", "ensemble"]
    return models.merge(teachers[[*keys, *PETDL_TEACHERS, "teacher_accuracy"]], on=keys, how="left")


def is_printed_of(value: Value, row: Mapping[Any, Any]) -> bool:
    """Return True if the paper on PET-DL prints `value` for the setting of the PET-DL student in `row`.

    The setting consists of the data set, the number of teachers, the weighting of the teachers, and the compression
    factor (number of parameters of a teacher divided by that of the student). Compression factors count as equal if
    they differ by less than 2 % (`_NEAR`). The result is False for all forms of PET-DL except "published".
    """
    chosen = value.parameters or {}
    if row["form"] != "published" or (value.dataset, value.teachers) != (row["dataset"], row["teachers"]):
        return False
    near = abs(chosen.get("compression", math.inf) / float(row["compression"]) - 1) < _NEAR
    return bool(near and bool(chosen.get("weighted")) == row["weighted"])


#: Minimum gap, in votes, at which NZC answers a query.
NZC_DISTANCE = 3


def gap_share(gap_histogram: Sequence[int], distance: int) -> float:
    """Return the share of queries whose two largest vote counts differ by at least `distance` votes.

    `gap_histogram` contains the number of queries for each gap from 0 votes to the number of teachers.
    """
    return sum(gap_histogram[distance:]) / sum(gap_histogram)
