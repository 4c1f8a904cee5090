"""What each student reached and at what ε, over the seeds: the common ground of the main table and the frontier."""

from typing import TYPE_CHECKING

from patebench.core.bound import Kind
from patebench.mechanisms import MECHANISMS
from patebench.reporting.frames import Records, arrange, spread

if TYPE_CHECKING:
    import pandas as pd

#: The facts that name an ensemble apart from its seed, and a release of it.
ENSEMBLE = ["dataset", "setting", "ensemble", "teachers", "partition", "model", "recipe", "epochs"]
RELEASE = [*ENSEMBLE, "mechanism", "noise"]
STUDENT = [*RELEASE, "student", "method", "student_model", "student_recipe", "queries"]

#: A student of either kind: `rounds` is the path of those in which it asked, "" for the pool in order.
ANY_STUDENT = [*STUDENT, "rounds"]


def outcomes(records: Records) -> "pd.DataFrame":
    """One row per student setting and δ, in natural order.

    Columns: those of `ANY_STUDENT`, `delta`, `seeds`, mean and deviation of `answered`, `label_accuracy`, `accuracy`,
    `data_dependent_epsilon`, `worst_case_epsilon` (with `…_accountant`) and `baseline_accuracy`. What was not
    measured is NaN.
    """
    import pandas as pd

    students = spread(every_student(records), ANY_STUDENT, ["answered", "label_accuracy", "accuracy"])
    key = [*RELEASE, "rounds", "queries"]
    settings = [*key, "delta", "accountant", "conversion", "kind", "publishable"]
    bounds = spread(pd.concat([records.bounds.assign(rounds=""), records.round_bounds]), settings, ["epsilon"])
    deltas = bounds[[*key, "delta"]].drop_duplicates()
    frame = students.merge(deltas, on=key, how="left")
    for kind in (Kind.DATA_DEPENDENT, Kind.WORST_CASE):
        frame = frame.merge(_tightest(bounds, kind), on=[*key, "delta"], how="left")
    frame = frame.merge(_baselines(records.baselines), on=["dataset", "setting"], how="left")
    return arrange(frame, [*ANY_STUDENT, "delta"])


def every_student(records: Records) -> "pd.DataFrame":
    """Students of either kind, one row for each seed; `rounds` and `strategy` are "" where the pool comes in order."""
    import pandas as pd

    return pd.concat([records.students.assign(rounds="", strategy=""), records.rounds], ignore_index=True)


def asked(rounds: str) -> list[tuple[str, str]]:
    """Strategy and number of queries of each round in a path such as …/round-0_random-100/round-1_siamese-50."""
    each = (part.partition("_")[2].rpartition("-") for part in rounds.split("/")[1:])
    return [(strategy, queries) for strategy, _, queries in each]


def frontier(students: "pd.DataFrame") -> "pd.Series[bool]":
    """Which outcomes no other of the same data set and split beats: more accurate at no larger publishable ε.

    Of outcomes alike in both, the first; none has an infinite ε.
    """
    import numpy as np

    ranked = students.assign(better=-students["accuracy_mean"], place=range(len(students)))
    ranked = ranked.sort_values(["worst_case_epsilon_mean", "better", "place"])
    panels = ranked.groupby(["dataset", "setting"], sort=False)["accuracy_mean"]
    before = panels.transform(lambda accuracies: accuracies.cummax().shift(fill_value=-np.inf))
    found = (ranked["accuracy_mean"] > before) & (ranked["worst_case_epsilon_mean"] < np.inf)
    return found.reindex(students.index)


def _tightest(bounds: "pd.DataFrame", kind: Kind) -> "pd.DataFrame":
    """The least ε of a kind for each release, T and δ; among data-dependent ones the paper's own goes first."""
    chosen = bounds[bounds["kind"] == kind]
    if kind is Kind.DATA_DEPENDENT:
        how = zip(chosen["accountant"], chosen["conversion"], strict=True)
        published = [MECHANISMS.load(name).published for name in chosen["mechanism"]]
        chosen = chosen.assign(other=[pair != own for pair, own in zip(how, published, strict=True)])
    else:
        chosen = chosen[chosen["publishable"]].assign(other=False)
    ranked = chosen.sort_values(["other", "epsilon_mean", "accountant", "conversion"])
    key = [*RELEASE, "rounds", "queries", "delta"]
    named = {"epsilon_mean": f"{kind}_epsilon_mean", "epsilon_std": f"{kind}_epsilon_std"}
    named["accountant"] = f"{kind}_accountant"
    return ranked.drop_duplicates(key)[[*key, *named]].rename(columns=named)


def _baselines(baselines: "pd.DataFrame") -> "pd.DataFrame":
    """The most accurate learner trained on all private data, for each data set and split."""
    baselines = baselines[baselines["truth"].isna()]
    found = spread(baselines, ["dataset", "setting", "learner"], ["accuracy"]).drop(columns="seeds")
    found = found.sort_values(["accuracy_mean", "learner"], ascending=[False, True])
    found = found.drop_duplicates(["dataset", "setting"])
    return found.rename(columns=lambda column: column.replace("accuracy_", "baseline_accuracy_"))
