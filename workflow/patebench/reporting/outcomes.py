"""Aggregate the measurements of a run into frames for tables, figures, rows and verdicts.

They hold students and private models with their ε over the seeds, bounds of several accountants, audits and stated ε,
students of PET-DL, and gaps between counts.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from patebench.core.bound import Kind
from patebench.core.class_accuracy import BESIDE_ACCURACY
from patebench.mechanisms import MECHANISMS
from patebench.models import MODELS, on_queries
from patebench.reporting.frames import Records, arrange, least, natural, over_seeds, sound
from patebench.reporting.published import ALL_SYSTEMS, PETDL, Value
from patebench.students import STRATEGIES, STUDENTS, learns_from_unlabelled, selects_by_features

if TYPE_CHECKING:
    import pandas as pd

#: Columns that identify an ensemble (without its seed), a set of its labels, and a student of these. `rounds` states
#: how the queries of the labels were selected ("": the whole pool).
ENSEMBLE = [
    *("dataset", "setting", "pool", "beside_pool", "ensemble", "clusters"),
    *("teachers", "partition", "model", "recipe", "epochs"),
]
LABEL_SET = [*ENSEMBLE, "mechanism", "noise", "parameters"]
#: Columns that identify one ε: the labels of T queries, at one δ.
SUBJECT = [*LABEL_SET, "queries", "delta"]
_ROUNDS = ["rounds", "selection", "strategy"]
STUDENT = [*LABEL_SET, "student", "method", "student_model", "student_recipe", "queries", *_ROUNDS]
#: Columns that identify students of the same votes without noise, and one of them by its kind of label.
DISTILLATION = [*ENSEMBLE, "distilled", "student_model", "student_recipe", "student_epochs", "samples"]
DISTILLED = [*DISTILLATION, "labels", "temperature", "epsilon"]
#: Columns that identify a private model and a bound on it.
PRIVATE_MODEL = [
    *("dataset", "setting", "pool", "system", "form", "private_model", "teachers", "model", "model_parameters"),
    *("public_use", "public_samples"),
    *("queries", "delta", "kind", "adjacency", "accountant", "label", "conversion"),
]


#: Columns shown with the accuracy of labels.
BESIDE_LABELS = [f"label_{what}" for what in BESIDE_ACCURACY]
_MEASURED = ["answered", "label_accuracy", "accuracy", *BESIDE_ACCURACY, *BESIDE_LABELS]


def trained(ensembles: "pd.DataFrame") -> "pd.DataFrame":
    """Return ensembles of trained teachers; records that vote on selected queries predict no test sample."""
    return ensembles[ensembles["plurality_accuracy_test"].notna()]


@lru_cache(maxsize=1)
def outcomes(records: Records) -> "pd.DataFrame":
    """Return one row per student setting and δ, in natural order; the frame is shared and must not be changed.

    Columns: those of `STUDENT`, `delta`, `seeds`, mean and deviation of `answered`, `label_accuracy`, `accuracy`, their
    class shares, `data_dependent_epsilon`, `worst_case_epsilon` (with `…_accountant`) and `baseline_accuracy`;
    `may_publish` is "yes" if the labels are a release with that worst-case ε. `uncovered` names the classes that are
    missing from the labels of some seed. Missing values are NaN.
    """
    students = over_seeds(records.students, STUDENT, _MEASURED)
    students = students.merge(_uncovered(records.students), on=STUDENT, how="left")
    key = [*LABEL_SET, "rounds", "queries"]
    settings = [*key, "delta", "accountant", "conversion", "kind", "publishable"]
    bounds = over_seeds(records.bounds, settings, ["epsilon"])
    deltas = bounds[[*key, "delta"]].drop_duplicates()
    frame = students.merge(deltas, on=key, how="left")
    for kind in (Kind.DATA_DEPENDENT, Kind.WORST_CASE):
        frame = frame.merge(_tightest(bounds, kind), on=[*key, "delta"], how="left")
    frame = frame.assign(may_publish=frame.pop("worst_case_publishable").map({True: "yes", False: "no"}))
    return arrange(_beside_baseline(frame, records), [*STUDENT, "delta"])


def _uncovered(students: "pd.DataFrame") -> "pd.DataFrame":
    """Return, per student setting, the classes missing from the labels of some seed, as text such as “3”, “8”."""
    named = students.groupby(STUDENT, dropna=False)["uncovered"]
    found = named.agg(lambda seeds: ", ".join(dict.fromkeys(f"“{name}”" for names in seeds for name in names or ())))
    return found.reset_index()


def private_models(records: Records) -> "pd.DataFrame":
    """Return one row per private model and bound on it, in natural order.

    Columns: those of `PRIVATE_MODEL`, `seeds`, mean and deviation of `epsilon`, `accuracy`, `seconds`, `answered`,
    `label_accuracy`, the class shares of these, and `baseline_accuracy`.
    """
    frame = over_seeds(records.private_models, PRIVATE_MODEL, ["epsilon", "seconds", *_MEASURED])
    return arrange(_beside_baseline(frame, records), PRIVATE_MODEL)


def public_use(student: Mapping[Any, Any]) -> tuple[str, int]:
    """Return how a student of released labels used unlabelled public samples, and their number."""
    import pandas as pd

    strategy, method = student["strategy"], student["method"]
    voted = student["model"] in MODELS and on_queries(student["model"])  # by features, in rounds too
    features = voted or pd.notna(student["clusters"]) or (strategy in STRATEGIES and selects_by_features(strategy))
    learns = method not in STUDENTS or learns_from_unlabelled(method)
    uses = [*(["features"] if features else []), "queries", *(["student"] if learns else [])]
    return ", ".join(uses), int(student["pool"] if features or learns else student["queries"])


def caps(parameters: "pd.Series[Any]") -> list[float]:
    """Return the maximum number k of counted votes per teacher; NaN for mechanisms without such a limit."""
    return [float(each.get("k", "nan")) for each in parameters]


def _beside_baseline(frame: "pd.DataFrame", records: Records) -> "pd.DataFrame":
    """Add the accuracy of the best model trained on all private data without privacy."""
    private = records.baselines[records.baselines["true_labels"].isna()]
    by = ["dataset", "setting"]
    return frame.merge(best_learners(private, by, "baseline_accuracy"), on=by, how="left")


def account_of_paper(mechanism: str) -> tuple[str, str] | None:
    """Return the accountant and conversion of a mechanism's paper; None if the mechanism is not installed."""
    return MECHANISMS.load(mechanism).published if mechanism in MECHANISMS else None


def stated_by_paper(bounds: "pd.DataFrame") -> "pd.Series[bool]":
    """Return True for bounds by the accountant and conversion of the mechanism's paper."""
    import pandas as pd

    known = {name: account_of_paper(name) for name in set(bounds["mechanism"])}
    how = bounds[["mechanism", "accountant", "conversion"]].itertuples(index=False, name=None)
    return pd.Series([known[name] == tuple(account) for name, *account in how], index=bounds.index, dtype=bool)


def frontier(students: "pd.DataFrame") -> "pd.Series[bool]":
    """Return True for outcomes on the frontier of accuracy and worst-case ε, within each data set and split.

    Of outcomes with equal accuracy and ε only the first is on it; an infinite ε never is.
    """
    import numpy as np

    ranked = students.assign(better=-students["accuracy_mean"], place=range(len(students)))
    ranked = ranked.sort_values(["worst_case_epsilon_mean", "better", "place"])
    panels = ranked.groupby(["dataset", "setting"], sort=False)["accuracy_mean"]
    before = panels.transform(lambda accuracies: accuracies.cummax().shift(fill_value=-np.inf))
    found = (ranked["accuracy_mean"] > before) & (ranked["worst_case_epsilon_mean"] < np.inf)
    return found.reindex(students.index)


def best_learners(baselines: "pd.DataFrame", by: list[str], name: str) -> "pd.DataFrame":
    """Return the accuracy of the most accurate learner per group of equal `by`, in columns that start with `name`."""
    found = over_seeds(baselines, [*by, "learner"], ["accuracy"])
    found = found.sort_values(["accuracy_mean", "learner"], ascending=[False, True]).drop_duplicates(by)
    named = {f"accuracy_{what}": f"{name}_{what}" for what in ("mean", "std")}
    return found[[*by, *named]].rename(columns=named)


def _tightest(bounds: "pd.DataFrame", kind: Kind) -> "pd.DataFrame":
    """Return the smallest ε of a kind per set of labels, T and δ; a data-dependent ε of the paper takes precedence."""
    chosen = bounds[bounds["kind"] == kind]
    chosen = chosen.assign(other=~stated_by_paper(chosen) if kind is Kind.DATA_DEPENDENT else False)
    ranked = chosen.sort_values(["other", "epsilon_mean", "accountant", "conversion"])
    key = [*LABEL_SET, "rounds", "queries", "delta"]
    named = {"epsilon_mean": f"{kind}_epsilon_mean", "epsilon_std": f"{kind}_epsilon_std"}
    named |= {what: f"{kind}_{what}" for what in ("accountant", "publishable")}
    return ranked.drop_duplicates(key)[[*key, *named]].rename(columns=named)


def compared_bounds(records: Records) -> "pd.DataFrame":
    """Return bounds on whole-pool labels that students learn from (on all labels if none do), one row per seed.

    `least_sound` is the smallest worst-case ε, and `least_exact` the smallest exact data-dependent ε, for the same
    labels, number of queries, δ and seed; NaN if there is none.
    """
    by = [*SUBJECT, "seed"]
    records = records.of_whole_pool()
    bounds = records.bounds
    used = records.students[[*LABEL_SET, "seed"]].drop_duplicates()
    bounds = bounds if used.empty else bounds.merge(used, on=[*LABEL_SET, "seed"])
    exact = bounds[bounds["exact"] & (bounds["kind"] == Kind.DATA_DEPENDENT)]
    for name, chosen in (("least_sound", sound(bounds)), ("least_exact", exact)):
        bounds = bounds.merge(least(chosen, by, name), on=by, how="left")
    return bounds


#: Columns that identify one audit.
AUDITED = [
    *("dataset", "teachers", "classes", "delta", "mechanism", "noise", "parameters"),
    *("queries", "runs", "confidence"),
]

#: Columns of the stated ε: the smallest of each kind.
STATED = {"claimed": Kind.CLAIMED, "worst_case": Kind.WORST_CASE, "data_dependent": Kind.DATA_DEPENDENT}
#: Prefix of columns of audited ε; the label of the bound follows.
_FOUND = f"{Kind.AUDITED_LOWER}: "

#: Verdicts from the worst to the best; the worst one counts.
_ORDER = ("violated", "disagrees", "holds", "vacuous")


def audited(records: Records) -> "pd.DataFrame":
    """Return one row per mechanism, setting and number of queries audited, in natural order.

    Columns: those of `AUDITED`, the ε of `STATED`, one per audit method (see `found_by`), and `claim` and `verdict`,
    the verdicts on the claimed and the proven ε. Missing ε are NaN and missing verdicts None.
    """
    frame = records.audits
    found = frame[AUDITED].drop_duplicates()
    for column, kind in STATED.items():
        found = found.merge(least(frame[frame["kind"] == kind], AUDITED, column), on=AUDITED, how="left")
    lost = frame[frame["kind"] == Kind.AUDITED_LOWER]
    for label in sorted(lost["label"].unique(), key=natural):
        most = lost[lost["label"] == label].groupby(AUDITED, dropna=False)["epsilon"].max()
        found = found.merge(most.rename(f"{_FOUND}{label}").reset_index(), on=AUDITED, how="left")
    claims, proven = frame["kind"] == Kind.CLAIMED, frame["kind"].isin([Kind.WORST_CASE, Kind.DATA_DEPENDENT])
    for column, chosen in (("claim", claims), ("verdict", proven)):
        found = found.merge(_audit_verdicts(frame[chosen], column), on=AUDITED, how="left")
    return arrange(found, AUDITED)


def found_by(frame: "pd.DataFrame") -> dict[str, str]:
    """Return the columns of `audited` with audited ε, and the label of each audit method."""
    names = map(str, frame.columns)
    return {name: name.removeprefix(_FOUND) for name in names if name.startswith(_FOUND)}


def _audit_verdicts(bounds: "pd.DataFrame", column: str) -> "pd.DataFrame":
    ranks = bounds["verdict"].map({name: rank for rank, name in enumerate(_ORDER)})
    worst = bounds.assign(rank=ranks.astype("float64")).groupby(AUDITED)["rank"].min()
    return worst.map(dict(enumerate(_ORDER))).astype("object").rename(column).reset_index()


#: Settings of a PET-DL student by their names in the parameters, in the order of Figures 3 to 5.
PETDL_CHOSEN = (
    *("hint_epochs", "distillation_epochs", "batch", "noise", "compression"),
    *("samples", "weighted", "clip", "hint_clip", "temperature", "learning_rate", "guided", "hint_layer", "epsilon"),
)

#: Columns that identify its teachers, except for their number and the seed.
PETDL_TEACHERS = ("partition", "teacher_model", "teacher_recipe", "teacher_epochs")

#: Maximum relative difference between the compression of a student and the printed one.
_NEAR = 0.02


def petdl_students(records: Records) -> "pd.DataFrame":
    """Return one row per PET-DL student and bound on it.

    Further columns are those of `PETDL_CHOSEN`, with the target ε called `target`, those of `PETDL_TEACHERS`, and
    `teacher_accuracy`, the mean of its teachers.
    """
    found = records.private_models
    found = found[found["system"] == ALL_SYSTEMS[PETDL]].reset_index(drop=True)
    for name in PETDL_CHOSEN:
        found["target" if name == "epsilon" else name] = [each.get(name) for each in found["parameters"]]
    found["compression"] = found["compression"].fillna(1.0).astype(float)
    found["weighted"] = found["weighted"].astype(bool)
    renamed = {name: f"teacher_{name}" for name in ("model", "recipe", "epochs")}
    teachers = records.ensembles.rename(columns={**renamed, "teacher_accuracy_mean": "teacher_accuracy"})
    keys = ["dataset", "split", "ensemble"]
    return found.merge(teachers[[*keys, *PETDL_TEACHERS, "teacher_accuracy"]], on=keys, how="left")


def is_printed_of(value: Value, row: Mapping[Any, Any]) -> bool:
    """Return True if `value` is printed for the data set, number of teachers, weighting and size of `row`."""
    chosen = value.parameters or {}
    if row["form"] != "published" or (value.dataset, value.teachers) != (row["dataset"], row["teachers"]):
        return False
    near = abs(chosen.get("compression", math.inf) / float(row["compression"]) - 1) < _NEAR
    return bool(near and bool(chosen.get("weighted")) == row["weighted"])


#: Smallest gap at which NZC assumes that one changed vote is harmless.
NZC_DISTANCE = 3


def gap_shares(gap_histogram: Sequence[int]) -> list[float]:
    """Return the share of queries with a gap of at least k, for k = 0 … n, from the number of queries per gap."""
    import numpy as np

    at_least = np.cumsum(np.asarray(gap_histogram)[::-1])[::-1]
    return [float(share) for share in at_least / sum(gap_histogram)]


def gap_share(gap_histogram: Sequence[int], distance: int) -> float:
    """Return the share of queries with a gap of at least `distance`; 0 if there are fewer votes."""
    return sum(gap_histogram[distance:]) / sum(gap_histogram)
