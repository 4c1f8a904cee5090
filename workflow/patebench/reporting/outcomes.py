"""What students and private models reached and at what ε, over the seeds: the common ground of tables and frontier."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from patebench.core.bound import Kind
from patebench.mechanisms import MECHANISMS
from patebench.models import MODELS, on_queries
from patebench.reporting.frames import Records, arrange, over_seeds, sound
from patebench.students import STUDENTS, learns_from_unlabelled
from patebench.students.strategies import STRATEGIES, needs_features

if TYPE_CHECKING:
    import pandas as pd

#: The facts that name an ensemble apart from its seed, a set of labels of it, and a student of these: of those labels,
#: `rounds` says how their queries were selected ("": the whole pool).
ENSEMBLE = [
    *("dataset", "setting", "pool", "beside_pool", "ensemble", "clusters"),
    *("teachers", "partition", "model", "recipe", "epochs"),
]
LABEL_SET = [*ENSEMBLE, "mechanism", "noise", "noise_in_words"]
#: What one ε is about: the labels of T queries, at one δ.
SUBJECT = [*LABEL_SET, "queries", "delta"]
_ROUNDS = ["rounds", "rounds_in_words", "strategy"]
STUDENT = [*LABEL_SET, "student", "method", "student_model", "student_recipe", "queries", *_ROUNDS]
#: Students that learn from votes of the same samples without noise, and one of them, by its kind of label.
DISTILLATION = [*ENSEMBLE, "distilled", "student_model", "student_recipe", "student_epochs", "samples"]
DISTILLED = [*DISTILLATION, "labels", "temperature", "epsilon"]
#: A model that is private itself, and a bound on it.
PRIVATE_MODEL = [
    *("dataset", "setting", "pool", "system", "form", "private_model", "teachers", "model", "model_parameters"),
    *("public_use", "public_samples"),
    *("queries", "delta", "kind", "adjacency", "accountant", "label", "conversion"),
]


def trained(ensembles: "pd.DataFrame") -> "pd.DataFrame":
    """Those whose teachers learnt: records that vote on selected queries alone predict no test sample."""
    return ensembles[ensembles["plurality_accuracy_test"].notna()]


def outcomes(records: Records) -> "pd.DataFrame":
    """One row per student setting and δ, in natural order.

    Columns: those of `STUDENT`, `delta`, `seeds`, mean and deviation of `answered`, `label_accuracy`, `accuracy`,
    `data_dependent_epsilon`, `worst_case_epsilon` (with `…_accountant`) and `baseline_accuracy`; `may_publish`
    says "yes" where that worst case is the ε of the labels in hand, a release. What was not measured is NaN.
    """
    students = over_seeds(records.students, STUDENT, ["answered", "label_accuracy", "accuracy"])
    key = [*LABEL_SET, "rounds", "queries"]
    settings = [*key, "delta", "accountant", "conversion", "kind", "publishable"]
    bounds = over_seeds(records.bounds, settings, ["epsilon"])
    deltas = bounds[[*key, "delta"]].drop_duplicates()
    frame = students.merge(deltas, on=key, how="left")
    for kind in (Kind.DATA_DEPENDENT, Kind.WORST_CASE):
        frame = frame.merge(_tightest(bounds, kind), on=[*key, "delta"], how="left")
    frame = frame.assign(may_publish=frame.pop("worst_case_publishable").map({True: "yes", False: "no"}))
    return arrange(_beside_baseline(frame, records), [*STUDENT, "delta"])


def private_models(records: Records) -> "pd.DataFrame":
    """One row per model that is private itself and bound on it, in natural order.

    Columns: those of `PRIVATE_MODEL`, `seeds`, mean and deviation of `epsilon`, `accuracy`, `seconds`, `answered`,
    `label_accuracy` and `baseline_accuracy`.
    """
    measured = ["epsilon", "accuracy", "seconds", "answered", "label_accuracy"]
    frame = over_seeds(records.private_models, PRIVATE_MODEL, measured)
    return arrange(_beside_baseline(frame, records), PRIVATE_MODEL)


def public_use(student: Mapping[Any, Any]) -> tuple[str, int]:
    """What public samples were used for by a student of released labels, and how many: without a label, all of them."""
    import pandas as pd

    strategy, method = student["strategy"], student["method"]
    voted = student["model"] in MODELS and on_queries(student["model"])  # by features, in rounds too
    features = voted or pd.notna(student["clusters"]) or (strategy in STRATEGIES and needs_features(strategy))
    learns = method not in STUDENTS or learns_from_unlabelled(method)
    uses = [*(["features"] if features else []), "queries", *(["student"] if learns else [])]
    return ", ".join(uses), int(student["pool"] if features or learns else student["queries"])


def caps(parameters: "pd.Series[Any]") -> list[float]:
    """k of the mechanisms that count k votes of a teacher at most; NaN for all others."""
    return [float(each.get("k", "nan")) for each in parameters]


def _beside_baseline(frame: "pd.DataFrame", records: Records) -> "pd.DataFrame":
    """The same, with what the best model of all private data reached without privacy."""
    private = records.baselines[records.baselines["true_labels"].isna()]
    by = ["dataset", "setting"]
    return frame.merge(best_learners(private, by, "baseline_accuracy"), on=by, how="left")


def account_of_paper(mechanism: str) -> tuple[str, str] | None:
    """The accountant and the conversion of a mechanism's own paper, if it has any.

    None where the mechanism is of a package that is not installed here: its records can be read all the same.
    """
    return MECHANISMS.load(mechanism).published if mechanism in MECHANISMS else None


def stated_by_paper(bounds: "pd.DataFrame") -> "pd.Series[bool]":
    """Which bounds are by the accountant and conversion of the mechanism's own paper."""
    import pandas as pd

    known = {name: account_of_paper(name) for name in set(bounds["mechanism"])}
    how = zip(bounds["mechanism"], bounds["accountant"], bounds["conversion"], strict=True)
    return pd.Series(
        [known[name] == (accountant, conversion) for name, accountant, conversion in how],
        index=bounds.index,
        dtype=bool,
    )


def frontier(students: "pd.DataFrame") -> "pd.Series[bool]":
    """Which outcomes no other of the same data set and split beats: more accurate at no larger worst-case ε.

    Of outcomes alike in both, the first; none has an infinite ε.
    """
    import numpy as np

    ranked = students.assign(better=-students["accuracy_mean"], place=range(len(students)))
    ranked = ranked.sort_values(["worst_case_epsilon_mean", "better", "place"])
    panels = ranked.groupby(["dataset", "setting"], sort=False)["accuracy_mean"]
    before = panels.transform(lambda accuracies: accuracies.cummax().shift(fill_value=-np.inf))
    found = (ranked["accuracy_mean"] > before) & (ranked["worst_case_epsilon_mean"] < np.inf)
    return found.reindex(students.index)


def best_learners(baselines: "pd.DataFrame", by: list[str], name: str) -> "pd.DataFrame":
    """The accuracy, under this name, of the most accurate learner per group of equal `by`."""
    found = over_seeds(baselines, [*by, "learner"], ["accuracy"])
    found = found.sort_values(["accuracy_mean", "learner"], ascending=[False, True]).drop_duplicates(by)
    named = {f"accuracy_{what}": f"{name}_{what}" for what in ("mean", "std")}
    return found[[*by, *named]].rename(columns=named)


def _tightest(bounds: "pd.DataFrame", kind: Kind) -> "pd.DataFrame":
    """The least ε of a kind for each set of labels, T and δ; among data-dependent ones the paper's own goes first."""
    chosen = bounds[bounds["kind"] == kind]
    if kind is Kind.DATA_DEPENDENT:
        chosen = chosen.assign(other=~stated_by_paper(chosen))
    else:
        chosen = sound(chosen).assign(other=False)
    ranked = chosen.sort_values(["other", "epsilon_mean", "accountant", "conversion"])
    key = [*LABEL_SET, "rounds", "queries", "delta"]
    named = {"epsilon_mean": f"{kind}_epsilon_mean", "epsilon_std": f"{kind}_epsilon_std"}
    named |= {what: f"{kind}_{what}" for what in ("accountant", "publishable")}
    return ranked.drop_duplicates(key)[[*key, *named]].rename(columns=named)
